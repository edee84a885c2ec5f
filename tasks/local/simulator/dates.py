"""Times as HTTP and JSON APIs write them, whatever the locale."""

from __future__ import annotations

import time

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"


def http_date(when: float) -> str:
    """As in `Date` and `Retry-After`."""
    moment = time.gmtime(when)
    month = _MONTHS[moment.tm_mon * 3 - 3 : moment.tm_mon * 3]
    clock = time.strftime("%H:%M:%S", moment)
    return f"{_DAYS[moment.tm_wday]}, {moment.tm_mday:02} {month} {moment.tm_year} {clock} GMT"


def rfc_3339(when: float) -> str:
    """To the second, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))
