/** What operators do to accounts and keys, as the audit log tells of it. Nothing of a key or a secret is noted but its id. */
import { type Issued, type IssueRequest, issueKey } from '../../accounts/issue-key.ts'
import type { Clock } from '../../clock.ts'
import type { TierName } from '../../job/tier.ts'
import type { OwnCaps, Secrets } from '../../store/account-store.ts'
import type { OperatorStore } from '../../store/operator-store.ts'
import { capsView } from '../account-view.ts'
import type { Intended } from '../audit.ts'
import { type AccountDeleted, type DeleteAccount, deleteAccount, suspendAndCancel } from '../bulk-actions.ts'
import { findAccount } from './find-account.ts'

const NO_SUCH_ACCOUNT = 'refused: there is no such account'

export function makeKey(store: OperatorStore, request: IssueRequest): Intended<Issued> {
  const { account, tier, expiresDays } = request
  return {
    what: 'make a key',
    account,
    details: { tier, expires_days: expiresDays },
    work: () => issueKey(store, request),
    told: (made) =>
      made.kind === 'issued' ? `made ${made.keyId}` : `refused: the account has tier ${made.tier}`,
  }
}

export function revokeKey(
  store: OperatorStore,
  clock: Clock,
  keyId: string,
): Intended<'revoked' | 'revoked before' | 'unknown'> {
  return {
    what: 'revoke a key',
    target: keyId,
    work: () => store.revokeKey(keyId, clock.nowMs()),
    told: (result) => (result === 'unknown' ? 'refused: there is no such key' : result),
  }
}

export function setTier(store: OperatorStore, account: string, tier: TierName): Intended<boolean> {
  return {
    what: 'set the tier of an account',
    account,
    details: { tier },
    work: () => store.setTier(account, tier),
    told: (known) => (known ? 'set' : NO_SUCH_ACCOUNT),
  }
}

/** @param secret the new one; null only looks at the one that is there */
export function showSecret(
  store: OperatorStore,
  clock: Clock,
  account: string,
  secret: string | null,
): Intended<Secrets | null> {
  return {
    what: secret === null ? 'look at a secret' : 'rotate a secret',
    account,
    work: async () => {
      if (secret !== null) await store.rotateSecret(account, secret, clock.nowMs())
      return store.secrets(account)
    },
    told: (secrets) => {
      if (!secrets) return NO_SUCH_ACCOUNT
      return secret === null ? 'shown' : 'rotated'
    },
  }
}

/** Since when it is suspended now, which may be from before; null if there is no such account. */
export function suspendAccount(
  store: OperatorStore,
  account: string,
  sinceMs: number | null,
): Intended<{ readonly sinceMs: number | null } | null> {
  return {
    what: sinceMs === null ? 'resume an account' : 'suspend an account',
    account,
    work: async () => {
      if (!(await store.suspend(account, sinceMs))) return null
      return { sinceMs: await suspendedSince(store, account) }
    },
    told: (known) => {
      if (!known) return NO_SUCH_ACCOUNT
      return sinceMs === null ? 'resumed' : 'suspended'
    },
  }
}

/** The same, and how many jobs were cancelled. */
export function suspendAccountAndCancel(
  store: OperatorStore,
  clock: Clock,
  account: string,
): Intended<{ readonly sinceMs: number | null; readonly cancelled: number } | null> {
  return {
    what: 'suspend an account',
    account,
    details: { cancel: true },
    work: async () => {
      const cancelled = await suspendAndCancel(store, clock, account)
      return cancelled === null ? null : { sinceMs: await suspendedSince(store, account), cancelled }
    },
    told: (done) => (done === null ? NO_SUCH_ACCOUNT : `suspended, ${done.cancelled} cancelled`),
  }
}

async function suspendedSince(store: OperatorStore, account: string): Promise<number | null> {
  return (await findAccount(store, account))?.suspendedAtMs ?? null
}

export function setCaps(store: OperatorStore, account: string, caps: OwnCaps): Intended<boolean> {
  return {
    what: 'set the caps of an account',
    account,
    details: capsView(caps),
    work: () => store.setCaps(account, caps),
    told: (known) => (known ? 'set' : NO_SUCH_ACCOUNT),
  }
}

export function deleteWholeAccount(
  store: OperatorStore,
  clock: Clock,
  what: DeleteAccount,
): Intended<AccountDeleted> {
  const { account, scrub } = what
  return {
    what: 'delete an account',
    account,
    details: { scrub },
    work: () => deleteAccount(store, clock, what),
    told: (result) => {
      if (result.kind === 'unknown') return NO_SUCH_ACCOUNT
      const jobs = `${result.jobs} jobs deleted, ${result.cancelled} of them cancelled`
      if (result.kind === 'still used') return `refused: it is still used; ${jobs}`
      const scrubbed = result.notScrubbed === null ? '' : `, not scrubbed: ${result.notScrubbed}`
      return `deleted; ${jobs}${scrubbed}`
    },
  }
}
