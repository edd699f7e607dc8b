/** Admin actions on accounts. The audit log records that a secret was shown or rotated, never the secret. */
import type { Clock } from '../../clock.ts'
import type { TierName } from '../../job/tier.ts'
import type { OwnCaps, Secrets } from '../../store/account-store.ts'
import type { OperatorStore } from '../../store/operator-store.ts'
import { changedCaps, type GivenCaps } from '../account-view.ts'
import type { AdminAction } from '../admin-action.ts'
import { cancelJobsOf, type JobsToCancel, suspendAndCancel } from '../cancel-jobs.ts'
import { type AccountDeletion, type AccountDeletionResult, deleteAccount } from '../delete-account.ts'
import { findAccount } from '../find-account.ts'

const NO_SUCH_ACCOUNT = 'refused: there is no such account'

export function setTierAction(store: OperatorStore, account: string, tier: TierName): AdminAction<boolean> {
  return {
    what: 'set the tier of an account',
    account,
    details: { tier },
    run: () => store.setTier(account, tier),
    describe: (exists) => (exists ? 'set' : NO_SUCH_ACCOUNT),
  }
}

/** @param newSecret null shows the current secret */
export function secretAction(
  store: OperatorStore,
  clock: Clock,
  account: string,
  newSecret: string | null,
): AdminAction<Secrets | null> {
  return {
    what: newSecret === null ? 'look at a secret' : 'rotate a secret',
    account,
    run: async () => {
      if (newSecret !== null) await store.rotateSecret(account, newSecret, clock.nowMs())
      return store.secrets(account)
    },
    describe: (secrets) => {
      if (!secrets) return NO_SUCH_ACCOUNT
      return newSecret === null ? 'shown' : 'rotated'
    },
  }
}

export interface Suspension {
  /** An account that was suspended before keeps its earlier time. */
  readonly sinceMs: number | null
}

/**
 * The result is null if the account does not exist.
 * @param sinceMs null resumes the account
 */
export function suspendAction(
  store: OperatorStore,
  account: string,
  sinceMs: number | null,
): AdminAction<Suspension | null> {
  return {
    what: sinceMs === null ? 'resume an account' : 'suspend an account',
    account,
    run: async () => {
      if (!(await store.suspend(account, sinceMs))) return null
      return { sinceMs: await suspendedSince(store, account) }
    },
    describe: (suspension) => {
      if (!suspension) return NO_SUCH_ACCOUNT
      return sinceMs === null ? 'resumed' : 'suspended'
    },
  }
}

/** The result is null if the account does not exist. */
export function suspendAndCancelAction(
  store: OperatorStore,
  clock: Clock,
  account: string,
): AdminAction<(Suspension & { readonly cancelled: number }) | null> {
  return {
    what: 'suspend an account',
    account,
    details: { cancel: true },
    run: async () => {
      const cancelled = await suspendAndCancel(store, clock, account)
      return cancelled === null ? null : { sinceMs: await suspendedSince(store, account), cancelled }
    },
    describe: (result) => (result === null ? NO_SUCH_ACCOUNT : `suspended, ${result.cancelled} cancelled`),
  }
}

async function suspendedSince(store: OperatorStore, account: string): Promise<number | null> {
  return (await findAccount(store, account))?.suspendedAtMs ?? null
}

/** The result is the number of cancelled jobs; null if the account does not exist. */
export function cancelJobsAction(
  store: OperatorStore,
  clock: Clock,
  jobs: JobsToCancel,
): AdminAction<number | null> {
  const { account, running } = jobs
  return {
    what: 'cancel the jobs of an account',
    account,
    details: { running },
    run: async () => ((await findAccount(store, account)) ? cancelJobsOf(store, clock, jobs) : null),
    describe: (cancelled) => (cancelled === null ? NO_SUCH_ACCOUNT : `${cancelled} cancelled`),
  }
}

/** The result is the new caps; null if the account does not exist. */
export function setCapsAction(
  store: OperatorStore,
  account: string,
  given: GivenCaps,
): AdminAction<OwnCaps | null> {
  return {
    what: 'set the caps of an account',
    account,
    details: { ...given },
    run: async () => {
      const before = await findAccount(store, account)
      if (!before) return null
      const caps = changedCaps(before.caps, given)
      return (await store.setCaps(account, caps)) ? caps : null
    },
    describe: (caps) => (caps === null ? NO_SUCH_ACCOUNT : 'set'),
  }
}

export function deleteAccountAction(
  store: OperatorStore,
  clock: Clock,
  deletion: AccountDeletion,
): AdminAction<AccountDeletionResult> {
  const { account, scrub } = deletion
  return {
    what: 'delete an account',
    account,
    details: { scrub },
    run: () => deleteAccount(store, clock, deletion),
    describe: (result) => {
      if (result.kind === 'unknown') return NO_SUCH_ACCOUNT
      const jobs = `${result.jobs} jobs deleted, ${result.cancelled} of them cancelled`
      if (result.kind === 'still used') return `refused: it is still used; ${jobs}`
      const scrubbed = result.notScrubbed === null ? '' : `, not scrubbed: ${result.notScrubbed}`
      return `deleted; ${jobs}${scrubbed}`
    },
  }
}
