"""Who may do what. A grant is all a handler ever learns of a caller."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.gateway.problems import Problem
from tasks.gateway.tokens import Scope, Token
from worker.job.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """`tenant` None: of all tenants. `job`: of this one alone."""

    name: str
    scopes: frozenset[Scope]
    tenant: str | None = None
    job: str | None = None

    def allows(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes

    def require(self, scope: Scope) -> None:
        """Raises Problem."""
        if not self.allows(scope):
            raise Problem("forbidden", f"the token lacks the scope {scope}")

    def sees(self, record: Record) -> bool:
        """A job that a caller may not see does not exist for it."""
        if self.job is not None and record.id != self.job:
            return False
        return self.tenant is None or record.tenant == self.tenant


#: Who calls from this machine, where no token is needed.
LOCAL = Grant(name="local", scopes=frozenset({Scope.ADMIN}))


def grant_of(token: Token) -> Grant:
    return Grant(
        name=token.id,
        scopes=frozenset(token.scopes),
        tenant=token.tenant or None,
        job=token.job or None,
    )
