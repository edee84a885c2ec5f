"""The typed settings everything runs with. Imports nothing of ours."""

from settings.errors import LongstreamError, SettingsError
from settings.load import load
from settings.model import Account, Key, Pool, Settings
from settings.profiles import PROFILES, Profile
from settings.secret import Secret

__all__ = [
    "PROFILES",
    "Account",
    "Key",
    "LongstreamError",
    "Pool",
    "Profile",
    "Secret",
    "Settings",
    "SettingsError",
    "load",
]
