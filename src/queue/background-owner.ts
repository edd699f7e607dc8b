/** The owner of jobs that the server creates without a caller's request: the jobs of batches and reruns. */
import type { Tier } from '../job/tier.ts'
import type { AccountRecord } from '../store/account-store.ts'
import { capsOf } from './job-and-token-caps.ts'
import type { JobOwner } from './job-creator.ts'
import { quotasOf } from './quotas.ts'

/**
 * The account with its current limits. Its limit of jobs per minute does not apply, so that callers' requests can use all of
 * it.
 */
export function backgroundOwner(
  account: string,
  usualTier: Tier,
  { suspendedAtMs, caps }: Pick<AccountRecord, 'suspendedAtMs' | 'caps'>,
): JobOwner {
  const tier = { ...usualTier, createsPerMinute: null }
  return {
    account,
    tier,
    suspended: suspendedAtMs !== null,
    caps: capsOf(account, tier, caps),
    quotas: quotasOf(account, tier, caps),
  }
}
