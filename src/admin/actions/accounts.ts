/** Declares the admin actions on accounts. The audit log records each access to a secret, but not the secret. */
import { rotateSecret } from '../../accounts/key.ts'
import { amountText, microsOf } from '../../job/amount.ts'
import { checkCallbackUrl, readNetworks } from '../../net/ssrf-guard.ts'
import { Type } from '../../typed-schema.ts'
import { type Cap, type Caps, caps, capsView, findAccount, ownCapsOf } from '../account-view.ts'
import { adminAction } from '../action.ts'
import {
  afterDeletion,
  cancelJobsOf,
  deleteAccount as deleteAll,
  NO_SCRUB,
  SCRUB_HELP,
  scrubField,
  suspendAndCancel,
} from '../deletion.ts'
import {
  count,
  DEFAULT_TIERS,
  originOf,
  strict,
  textOrNull,
  tierName,
  unixTimeOrNull,
  wholeSeconds,
} from '../fields.ts'
import { refusals, unknownTier } from '../refusals.ts'

const { noSuchAccount } = refusals
const NAME = { account: ['<name>', 'the account'] } as const
const TAKES_EFFECT = 'Running servers apply this within a few seconds.'

const setTier = adminAction({
  what: 'set the tier of an account',
  about: 'account',
  fields: Type.Object({ tier: tierName }, { ...strict, examples: [{ tier: 'user_pro' }] }),
  details: ({ tier }) => ({ tier }),
  run: async ({ account, tier }, { store, tiers }) =>
    unknownTier(tier, await tiers()) ??
    ((await store.setTier(account, tier)) ? 'set' : noSuchAccount(account)),
  outcome: () => 'set',
  log: ({ tier }) => ({ tier }),
  route: {
    method: 'post',
    path: '/accounts/:name/tier',
    operationId: 'setAccountTier',
    summary: 'Move an account to another tier',
    description:
      'The tier applies to all keys of the account. Every node applies the change within a few seconds.',
    success: 'The tier was set.',
    data: Type.Object({ name: Type.String(), tier: tierName }),
    answer: (_set, { account, tier }) => ({
      message: `The account has tier ${tier}. Every node applies the change within a few seconds.`,
      data: { name: account, tier },
    }),
  },
  command: {
    name: 'accounts tier',
    description: 'move an account to another tier',
    arguments: {
      ...NAME,
      tier: ['<tier>', 'the new tier', DEFAULT_TIERS],
    },
    examples: ['parley accounts tier acme user_max'],
  },
  print: (_set, { account, tier }) => ({
    json: { account, tier },
    text: `Account ${account} has tier ${tier}. ${TAKES_EFFECT}`,
  }),
})

const getSecret = adminAction({
  what: 'look at a secret',
  about: 'account',
  fields: Type.Object(
    {
      rotate: Type.Optional(
        Type.Boolean({
          description:
            'Create a new secret first. The previous secret remains valid for 24 hours, or until the next rotation.',
        }),
      ),
    },
    { ...strict, examples: [{}, { rotate: true }] },
  ),
  whatOf: ({ rotate }) => (rotate ? 'rotate a secret' : 'look at a secret'),
  run: async ({ account, rotate = false }, { store, clock }) => {
    if (rotate) await rotateSecret(store, account, clock.nowMs())
    const secrets = await store.secrets(account)
    return secrets === null ? noSuchAccount(account) : { secret: secrets.current, rotated: rotate }
  },
  outcome: ({ rotated }) => (rotated ? 'rotated' : 'shown'),
  route: {
    method: 'post',
    path: '/accounts/:name/secret',
    operationId: 'getAccountSecret',
    summary: "Show or rotate the secret that signs an account's callbacks; each access is logged",
    description:
      'With `rotate`, a new secret is created first. For 24 hours, or until the next rotation, callbacks are signed with both the new and the previous secret.',
    success: 'The secret.',
    data: Type.Object({ secret: Type.String() }),
    answer: ({ secret, rotated }) => ({
      message: rotated
        ? 'This is the new secret. For 24 hours, callbacks are signed with the previous secret as well.'
        : 'This is the secret.',
      data: { secret },
    }),
  },
  command: {
    name: 'accounts secret',
    description: "print the secret that signs an account's callbacks",
    arguments: NAME,
    options: {
      rotate: [
        '--rotate',
        'create a new secret; the old one remains valid for 24 hours, or until the next rotation',
      ],
    },
    examples: ['parley accounts secret acme', 'parley accounts secret acme --rotate'],
  },
  // Scripts use the output, so it contains only the secret.
  print: ({ secret }, { account }) => ({ json: { account, secret }, text: secret }),
})

const setWebhook = adminAction({
  what: 'set the webhook of an account',
  about: 'account',
  fields: Type.Object(
    { url: textOrNull('Where events of its jobs are sent; null for nowhere.') },
    { ...strict, examples: [{ url: 'https://example.com/parley-events' }, { url: null }] },
  ),
  // Paths and queries of webhooks often contain secrets, so only the origin is recorded.
  details: ({ url }) => ({ origin: url ? originOf(url) : null }),
  check: ({ url }) => {
    const checked = webhookUrl(url)
    return checked.ok ? null : refusals.invalidWebhookUrl(checked.rule)
  },
  run: async ({ account, url }, { store }) => {
    const checked = webhookUrl(url)
    if (!checked.ok) throw new Error('the URL was not checked')
    return (await store.setWebhook(account, checked.url)) ? { url: checked.url } : noSuchAccount(account)
  },
  outcome: ({ url }) => (url === null ? 'cleared' : 'set'),
  route: {
    method: 'post',
    path: '/accounts/:name/webhook',
    operationId: 'setAccountWebhook',
    summary: 'Set where events of an account are sent',
    description:
      "Applies to background responses and batches created from then on. Events are signed with the account's secret, retried and replayed like callbacks.",
    success: 'The webhook was set.',
    data: Type.Object({ name: Type.String(), webhook_url: textOrNull('Null for nowhere.') }),
    answer: ({ url }, { account }) => ({
      message: 'The webhook was set. Every node applies it within a few seconds.',
      data: { name: account, webhook_url: url },
    }),
  },
  command: {
    name: 'accounts webhook',
    description: 'set the address for events of an account',
    arguments: { ...NAME, url: ['[url]', 'the address that receives events'] },
    options: { clear: ['--clear', 'send no events'] },
    help: "\nEvents report how background responses and batches ended. They are signed with the account's secret.",
    examples: [
      'parley accounts webhook acme https://example.com/parley-events',
      'parley accounts webhook acme --clear',
    ],
    choose: ({ url, clear }) =>
      (url === undefined) === (clear === undefined) ? 'Pass either a URL or --clear.' : null,
  },
  print: ({ url }, { account }) => ({
    json: { name: account, webhook_url: url },
    text: url
      ? `Events of account ${account} are sent to ${url}. ${TAKES_EFFECT}`
      : `Account ${account} has no webhook. ${TAKES_EFFECT}`,
  }),
})

type CheckedUrl =
  | { readonly ok: true; readonly url: string | null }
  | { readonly ok: false; readonly rule: string }

/**
 * Rejects URLs that no server would accept. A command may not know the server's settings, so servers check the URL of each
 * event.
 * @param given undefined for the option --clear
 */
function webhookUrl(given: string | null | undefined): CheckedUrl {
  if (!given) return given === '' ? { ok: false, rule: 'must not be empty' } : { ok: true, url: null }
  const { username = '', password = '' } = URL.parse(given) ?? {}
  if (username || password) return { ok: false, rule: 'must not contain a user name or password' }
  const every = readNetworks(['0.0.0.0/0', '::/0'])
  return checkCallbackUrl(given, { allow: every.ok ? every.networks : [], httpsOnly: false })
}

const suspended = Type.Object({ name: Type.String(), suspended_at: unixTimeOrNull('When it was suspended') })
const SUSPENDED = 'Done. Every node applies the change within a few seconds.'
const CONTINUES = 'Queued and running jobs continue. Every node applies the change within a few seconds.'

const suspend = adminAction({
  what: 'suspend an account',
  about: 'account',
  fields: Type.Object({ cancel: Type.Optional(Type.Boolean()) }),
  details: ({ cancel }) => (cancel ? { cancel } : {}),
  run: async ({ account, cancel }, { store, clock }) => {
    const cancelled = cancel ? await suspendAndCancel(store, clock, account) : null
    const exists = cancel ? cancelled !== null : await store.suspend(account, clock.nowMs())
    if (!exists) return noSuchAccount(account)
    // If the account was already suspended, the time of the first suspension remains.
    const found = await findAccount(store, account, clock.nowMs())
    return { suspendedAt: wholeSeconds(found?.suspendedAtMs ?? null), cancelled }
  },
  outcome: ({ cancelled }) => (cancelled === null ? 'suspended' : `suspended, ${cancelled} cancelled`),
  route: {
    method: 'post',
    path: '/accounts/:name/suspend',
    operationId: 'suspendAccount',
    summary: 'Suspend an account: it cannot create jobs, but can still read them',
    description: CONTINUES,
    success: SUSPENDED,
    data: suspended,
    takesFields: false,
    answer: ({ suspendedAt }, { account }) => ({
      message: 'The account is suspended. Every node applies the change within a few seconds.',
      data: { name: account, suspended_at: suspendedAt },
    }),
  },
  command: {
    name: 'accounts suspend',
    description: 'suspend an account: it cannot create jobs, but can still read them',
    arguments: NAME,
    options: { cancel: ['--cancel', 'also cancel its queued and running jobs; takes 3 seconds'] },
    examples: ['parley accounts suspend acme', 'parley accounts suspend acme --cancel'],
  },
  print: ({ suspendedAt, cancelled }, { account }) => {
    const text = `Account ${account} is suspended. New jobs are rejected within a few seconds. It can still read its jobs.`
    return {
      json: { name: account, suspended_at: suspendedAt, ...(cancelled !== null && { cancelled }) },
      text: cancelled === null ? text : `${text}\n${jobs(cancelled)} cancelled.`,
    }
  },
})

const resume = adminAction({
  what: 'resume an account',
  about: 'account',
  fields: Type.Object({}),
  run: async ({ account }, { store }) =>
    (await store.suspend(account, null)) ? 'resumed' : noSuchAccount(account),
  outcome: () => 'resumed',
  route: {
    method: 'post',
    path: '/accounts/:name/resume',
    operationId: 'resumeAccount',
    summary: 'Resume a suspended account: it can create jobs again',
    description: CONTINUES,
    success: SUSPENDED,
    data: suspended,
    answer: (_resumed, { account }) => ({
      message: 'The account is resumed. Every node applies the change within a few seconds.',
      data: { name: account, suspended_at: null },
    }),
  },
  command: {
    name: 'accounts resume',
    description: 'resume a suspended account: it can create jobs again',
    arguments: NAME,
    examples: ['parley accounts resume acme'],
  },
  print: (_resumed, { account }) => ({
    json: { name: account, suspended_at: null },
    text: `Account ${account} can create jobs again. ${TAKES_EFFECT}`,
  }),
})

/** `parley jobs cancel --account` runs this action. */
export const cancelAccountJobs = adminAction({
  what: 'cancel the jobs of an account',
  about: 'account',
  fields: Type.Object(
    { running: Type.Optional(Type.Boolean({ description: 'Also cancels running jobs.' })) },
    { ...strict, examples: [{}, { running: true }] },
  ),
  details: ({ running = false }) => ({ running }),
  run: async ({ account, running = false }, { store, clock }) => {
    if (!(await findAccount(store, account, clock.nowMs()))) return noSuchAccount(account)
    return { cancelled: await cancelJobsOf(store, clock, { account, running }) }
  },
  outcome: ({ cancelled }) => `${cancelled} cancelled`,
  log: ({ running = false }, { cancelled }) => ({ running, jobs: cancelled }),
  cancels: true,
  route: {
    method: 'post',
    path: '/accounts/:name/cancel-jobs',
    operationId: 'cancelAccountJobs',
    summary: "Cancel an account's queued jobs and, on request, its running jobs",
    description: 'Each of them fails with `cancelled`, and its callback is sent.',
    success: 'The jobs were cancelled.',
    data: Type.Object({ cancelled: count }),
    answer: (data) => ({ message: `${data.cancelled} jobs are cancelled.`, data }),
  },
  print: ({ cancelled }, { account, running }) => {
    const kind = running ? 'queued or running' : 'queued'
    const text =
      cancelled === 0
        ? `Account ${account} has no ${kind} jobs, so none were cancelled.`
        : `${cancelled} ${kind} ${cancelled === 1 ? 'job' : 'jobs'} of account ${account} ${cancelled === 1 ? 'was' : 'were'} cancelled.`
    return { json: { cancelled }, text }
  },
})

const isCap = (given: unknown, name: string) =>
  given === 'none' ||
  given === 'tier' ||
  (typeof given === 'number' && given >= 0 && (name === 'max_monthly_cost' || Number.isSafeInteger(given)))

const setCaps = adminAction({
  what: 'set the caps of an account',
  about: 'account',
  fields: Type.Object(
    {
      max_monthly_jobs: Type.Optional(caps.max_monthly_jobs),
      max_monthly_tokens: Type.Optional(caps.max_monthly_tokens),
      max_monthly_cost: caps.max_monthly_cost,
      max_open_jobs: Type.Optional(caps.max_open_jobs),
      max_stored_bytes: Type.Optional(caps.max_stored_bytes),
    },
    {
      ...strict,
      minProperties: 1,
      description: 'Caps and quotas that are absent remain unchanged.',
      examples: [
        { max_monthly_jobs: 10_000 },
        {
          max_monthly_jobs: 'none',
          max_monthly_tokens: 5_000_000,
          max_open_jobs: 500,
          max_stored_bytes: 'tier',
        },
      ],
    },
  ),
  details: ({ account: _account, ...given }) => given,
  run: async ({ account, ...given }, { store, clock }) => {
    const isSet = await store.setCaps(account, ownCapsOf(given))
    const found = isSet ? await findAccount(store, account, clock.nowMs()) : null
    return found ? capsView(found.caps) : noSuchAccount(account)
  },
  outcome: () => 'set',
  log: (_input, own) => own,
  route: {
    method: 'post',
    path: '/accounts/:name/caps',
    operationId: 'setAccountCaps',
    summary: 'Set the monthly caps and quotas of an account',
    description:
      'Caps limit what the account uses in a calendar month (UTC). Quotas limit what it has open or stored at any time.',
    success: 'The caps were set.',
    data: Type.Object({ name: Type.String(), ...caps }),
    // The schema's own message would name only one of the allowed forms.
    checkBody: (body) => {
      const wrong = Object.entries(Object(body)).find(
        ([name, cap]) => Object.hasOwn(caps, name) && !isCap(cap, name),
      )
      const number = wrong?.[0] === 'max_monthly_cost' ? 'a number' : 'a whole number'
      return wrong ? `${wrong[0]}: must be ${number} of at least 0, none, or tier` : null
    },
    answer: (own, { account }) => ({
      message: 'The caps were set. Every node applies them within a few seconds.',
      data: { name: account, ...own },
    }),
  },
  command: {
    name: 'accounts cap',
    description: 'set the monthly caps of an account (calendar months in UTC) and its quotas',
    arguments: NAME,
    options: {
      max_monthly_jobs: ['--jobs <cap>', "a number of jobs, none for no cap, or tier for the tier's cap"],
      max_monthly_tokens: ['--tokens <cap>', 'the same for tokens, input and output together'],
      max_monthly_cost: ['--monthly-cost <cap>', 'the same for the cost, in the currency of the prices'],
      max_open_jobs: ['--open-jobs <quota>', 'the same for jobs that are queued or running at the same time'],
      max_stored_bytes: ['--stored-bytes <quota>', 'the same for bytes that its jobs store'],
    },
    help: '\nCaps and quotas that you do not pass remain unchanged.',
    examples: [
      'parley accounts cap acme --jobs 10000',
      'parley accounts cap acme --jobs tier --tokens none',
      'parley accounts cap acme --open-jobs 500 --stored-bytes 1073741824',
    ],
    choose: (given) =>
      Object.keys(caps).some((name) => given[name] !== undefined)
        ? null
        : 'There is nothing to set. Pass at least one of --jobs, --tokens, --monthly-cost, --open-jobs and --stored-bytes, each with N, none or tier.',
  },
  print: (own, { account }) => ({
    json: { name: account, ...own },
    text: `Monthly caps of account ${account}: ${capText(own.max_monthly_jobs, 'jobs')}, ${capText(own.max_monthly_tokens, 'tokens')}${costCapText(own)}.
Quotas: ${capText(own.max_open_jobs, 'open jobs')}, ${capText(own.max_stored_bytes, 'stored bytes')}. ${TAKES_EFFECT}`,
  }),
})

/** Many operators configure no prices. The cost cap is then absent, and the text is empty. */
function costCapText({ max_monthly_cost: cap }: Caps): string {
  if (cap === undefined) return ''
  return typeof cap === 'number' ? `, a cost of ${amountText(microsOf(cap))}` : `, ${capText(cap, 'cost')}`
}

/** @param unit in the plural, such as `open jobs` */
function capText(cap: Cap, unit: string): string {
  if (cap === 'tier') return `tier default for ${unit}`
  if (cap === 'none') return `unlimited ${unit}`
  return cap === 1 ? `1 ${unit.replace(/s$/, '')}` : `${cap} ${unit}`
}

const deleteAccount = adminAction({
  what: 'delete an account',
  about: 'account',
  fields: Type.Object({ scrub: scrubField }, strict),
  details: ({ scrub }) => ({ scrub }),
  run: async ({ account, scrub }, { store, clock, onProgress }) => {
    const result = await deleteAll(store, clock, { account, scrub, onProgress })
    return result.kind === 'unknown' ? noSuchAccount(account) : result
  },
  outcome: (result) => {
    const deleted = `${result.jobs} jobs deleted, ${result.cancelled} of them cancelled`
    if (result.kind === 'still used') return `refused: it is still used; ${deleted}`
    return `deleted; ${deleted}${result.notScrubbed === null ? '' : `, not scrubbed: ${result.notScrubbed}`}`
  },
  log: ({ scrub }, { kind, jobs, cancelled }) => ({ scrub, outcome: kind, jobs, cancelled }),
  shortfall: ({ account }, result) => {
    if (result.kind === 'still used') return refusals.accountStillUsed(account, result.jobs)
    return result.notScrubbed === null ? null : refusals.notScrubbed(`Account ${account}`, result.notScrubbed)
  },
  route: {
    method: 'delete',
    path: '/accounts/:name',
    operationId: 'deleteAccount',
    summary: 'Permanently delete an account with its keys, jobs and secrets',
    description:
      'Suspends the account, cancels its jobs, then deletes everything. This takes at least 3 seconds, because every node must apply the suspension first. Its usage totals are kept for invoices, under a name that only this response contains. The audit log keeps its entries about the account.',
    success: 'The account was deleted.',
    data: Type.Object({
      deleted: Type.Literal(true),
      jobs: Type.Integer({ description: 'The number of deleted jobs.' }),
      cancelled: Type.Integer({ description: 'How many of them were cancelled first.' }),
      usage_as: textOrNull('The name under which its usage is listed now; null if it had none.'),
    }),
    conflicts: true,
    answer: ({ jobs, cancelled, ...rest }) => ({
      data: { deleted: true, jobs, cancelled, usage_as: usageAs(rest) },
    }),
  },
  command: {
    name: 'accounts delete',
    description: 'permanently delete an account with its keys, jobs and secrets',
    arguments: NAME,
    options: { yes: ['--yes', 'do not ask for confirmation'], scrub: NO_SCRUB },
    help: `
Queued and running jobs are cancelled first. Without --yes the command asks you to type the account's name.
Its usage totals are kept for invoices, under a name that the command prints.
${SCRUB_HELP}`,
    examples: ['parley accounts delete acme', 'parley accounts delete acme --yes --no-scrub'],
    confirms: true,
  },
  print: ({ jobs, cancelled, ...result }, { account, scrub }) => ({
    json: { deleted: true, jobs, cancelled, scrubbed: scrub, usage_as: usageAs(result) },
    text: `Account ${account} was deleted with ${jobs} ${jobs === 1 ? 'job' : 'jobs'}, ${cancelled} of them cancelled first. ${usageText(usageAs(result))}${afterDeletion(scrub)}`,
  }),
})

function usageAs(result: { readonly kind: string } | { readonly usageAs: string | null }): string | null {
  return 'usageAs' in result ? result.usageAs : null
}

function usageText(name: string | null): string {
  return name === null ? '' : `Its usage is listed as ${name} now (\`parley usage --account ${name}\`). `
}

function jobs(cancelled: number): string {
  return `${cancelled} ${cancelled === 1 ? 'job was' : 'jobs were'}`
}

export const accountActions = [
  setTier,
  getSecret,
  setWebhook,
  suspend,
  resume,
  cancelAccountJobs,
  setCaps,
  deleteAccount,
] as const
