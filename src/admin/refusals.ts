/**
 * Explains why an admin action was refused or only partly carried out. `http/admin/action-routes.ts` maps the reasons to
 * errors.
 */

export type RefusalReason =
  | { readonly kind: `no such ${'account' | 'job' | 'callback' | 'batch' | 'file' | 'key' | 'token'}` }
  | { readonly kind: 'invalid account name'; readonly rule: string }
  | { readonly kind: 'invalid webhook URL'; readonly rule: string }
  | { readonly kind: 'key not active' }
  | { readonly kind: 'token name taken'; readonly name: string }
  | { readonly kind: 'unknown tier'; readonly tiers: readonly string[] }
  | { readonly kind: 'tier required' }
  | { readonly kind: 'other tier'; readonly account: string; readonly tier: string }
  | { readonly kind: 'account still used'; readonly jobs: number }
  | { readonly kind: 'job ended' }
  | { readonly kind: 'batch ended' }
  | { readonly kind: 'job not ended' }
  | { readonly kind: 'callback in progress' }
  | { readonly kind: 'not rerun'; readonly why: string }
  | { readonly kind: 'no filter' }
  | { readonly kind: 'not scrubbed'; readonly why: string }

export class Refusal {
  readonly reason: RefusalReason
  /** The audit log shows this text. */
  readonly outcome: string
  /** Commands print this text. */
  readonly message: string

  constructor(reason: RefusalReason, outcome: string, message: string) {
    this.reason = reason
    this.outcome = outcome
    this.message = message
  }
}

function noSuch(
  what: 'account' | 'job' | 'callback' | 'batch' | 'file' | 'key' | 'token',
  message: string,
): Refusal {
  return new Refusal({ kind: `no such ${what}` }, `refused: there is no such ${what}`, message)
}

const NO_FILTER = 'Pass a job ID, or at least one of --account, --error-code, --model, --from and --status.'
const SCRUB_LATER =
  'Wait until backups, copies and open queries have finished, make sure that there is enough free disk space, and run `parley scrub`.'

export const refusals = {
  noSuchAccount: (name: string) =>
    noSuch(
      'account',
      `There is no account ${name}. \`parley accounts list\` shows all accounts; \`parley keys create --account ${name} --tier TIER\` creates this one.`,
    ),
  noSuchJob: (jobId: string) =>
    noSuch('job', `Job ${jobId} not found: the ID is wrong, or the job has expired.`),
  noSuchCallback: (jobId: string) =>
    noSuch(
      'callback',
      `No callback found for job ${jobId}: the ID is wrong, or the job has expired, has not finished yet, or was created without a callback.`,
    ),
  noSuchBatch: (batchId: string) =>
    noSuch('batch', `Batch ${batchId} not found: the ID is wrong, or the batch has expired.`),
  noSuchFile: (batchId: string, file: string) =>
    noSuch(
      'file',
      `Batch ${batchId} has no ${file} file: it has not ended, has no such lines, or the file was deleted.`,
    ),
  batchEnded: (batchId: string) =>
    new Refusal(
      { kind: 'batch ended' },
      'refused: it had already ended',
      `Batch ${batchId} has already ended, so it was not cancelled.`,
    ),
  noSuchKey: (keyId: string) =>
    noSuch(
      'key',
      `There is no key with the ID ${keyId}. Pass the key ID, not the key. \`parley keys list\` shows the IDs.`,
    ),
  noSuchToken: (tokenId: string) =>
    noSuch(
      'token',
      `There is no admin token with the ID ${tokenId}. Pass the ID, not the token. \`parley tokens list\` shows the IDs.`,
    ),
  tokenNameTaken: (name: string) =>
    new Refusal(
      { kind: 'token name taken', name },
      'refused: another token has the name',
      `There is a token with the name ${name} already. Revoke it first, or choose another name.`,
    ),
  keyNotActive: (keyId: string) =>
    new Refusal(
      { kind: 'key not active' },
      'refused: the key was revoked or has expired',
      `The key ${keyId} was revoked or has expired, so it cannot be rotated. Create a new one with \`parley keys create\`.`,
    ),
  invalidAccountName: (name: string, rule: string) =>
    new Refusal(
      { kind: 'invalid account name', rule },
      'refused: the name is not valid',
      `--account: ${name} is not a valid account name. Use ${rule}.`,
    ),
  invalidWebhookUrl: (rule: string) =>
    new Refusal({ kind: 'invalid webhook URL', rule }, 'refused: the URL is not valid', `The URL ${rule}.`),
  tierRequired: (account: string) =>
    new Refusal(
      { kind: 'tier required' },
      'refused: the account is new, and no tier was given',
      `--tier is required: there is no account ${account} yet.`,
    ),
  otherTier: (account: string, tier: string, wanted: string) =>
    new Refusal(
      { kind: 'other tier', account, tier },
      `refused: the account has tier ${tier}`,
      `Account ${account} has tier ${tier}. Use that tier, or move the account first: parley accounts tier ${account} ${wanted}`,
    ),
  accountStillUsed: (name: string, jobs: number) =>
    new Refusal(
      { kind: 'account still used', jobs },
      'refused: it is still used',
      `Account ${name} was not deleted, because it kept receiving new jobs. It is suspended, and ${jobs} of its jobs were deleted. Revoke its keys (\`parley keys list\` shows them) and try again.`,
    ),
  jobEnded: (jobId: string) =>
    new Refusal(
      { kind: 'job ended' },
      'refused: it had already finished',
      `Job ${jobId} has already finished, so it was not cancelled.`,
    ),
  jobNotEnded: (jobId: string) =>
    new Refusal(
      { kind: 'job not ended' },
      'refused: it had not finished',
      `Job ${jobId} has not finished. Cancel it first: parley jobs cancel ${jobId}`,
    ),
  callbackInProgress: (jobId: string) =>
    new Refusal(
      { kind: 'callback in progress' },
      'refused: it was being sent just then',
      `The callback of job ${jobId} is being sent right now, so it was not replayed. Try again in a minute.`,
    ),
  /** @param why a full sentence */
  notRerun: (jobId: string, why: string) =>
    new Refusal({ kind: 'not rerun', why }, `refused: ${why}`, `Job ${jobId} was not rerun. ${why}`),
  noFilter: () => new Refusal({ kind: 'no filter' }, 'refused: no filter', NO_FILTER),
  /** @param what the subject, such as `Job X` */
  notScrubbed: (what: string, why: string) =>
    new Refusal(
      { kind: 'not scrubbed', why },
      `deleted, not scrubbed: ${why}`,
      `${what} was deleted, but not scrubbed from the disk: ${why}. ${SCRUB_LATER}`,
    ),
  scrubFailed: (why: string) =>
    new Refusal(
      { kind: 'not scrubbed', why },
      `failed: ${why}`,
      `The database was not scrubbed: ${why}. ${SCRUB_LATER}`,
    ),
} as const

/** Returns null if the tier is configured. */
export function unknownTier(tier: string, tiers: readonly string[]): Refusal | null {
  if (tiers.includes(tier)) return null
  return new Refusal(
    { kind: 'unknown tier', tiers },
    'refused: the tier is not configured',
    `There is no tier ${tier}. The configured tiers are ${tiers.join(', ')}.`,
  )
}
