/** Names a job in the audit log, together with the account that owns it. */
import type { Expiry } from '../../store/expiry.ts'
import type { OperatorStore } from '../../store/operator-store.ts'

/** If the job does not exist, the entry names the job ID alone. */
export async function jobTarget(store: OperatorStore, jobId: string, expiry: Expiry) {
  const job = await store.findJob(jobId, expiry)
  return { target: jobId, account: job?.account ?? null }
}
