/** Who creates jobs that no caller sends at this moment: those of batches and reruns. */
import type { Tier } from '../job/tier.ts'
import type { AccountRecord } from '../store/account-store.ts'
import type { JobOwner } from './job-creator.ts'
import { capsOf } from './monthly-caps.ts'
import { quotasOf } from './quotas.ts'

/** The account as it is now. These jobs leave its callers the jobs per minute that they may create. */
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
