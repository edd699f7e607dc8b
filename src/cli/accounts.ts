/** `parley accounts`: the secret that signs callbacks, the tier, caps, and whether it may create jobs. */
import { ACCOUNT_NAME } from '../accounts/issue-key.ts'
import { accountView, type CapText, capsView, readCap, secondsOf } from '../admin/account-view.ts'
import {
  setCaps,
  setTier as settingTier,
  showSecret,
  suspendAccount,
  suspendAccountAndCancel,
} from '../admin/actions/accounts.ts'
import { findAccount } from '../admin/actions/find-account.ts'
import type { TierName } from '../job/tier.ts'
import { makeSecret } from '../net/signature.ts'
import type { AccountRecord } from '../store/account-store.ts'
import { CommandError } from './command-error.ts'
import { noSuchAccount } from './no-such-account.ts'
import { printLine } from './output.ts'
import { table } from './table.ts'
import { onRecord, withOperatorStore } from './with-operator-store.ts'

/** Accounts asked for at once. */
const PAGE = 1000

export interface ListAccountsOptions {
  readonly json?: true
  readonly config?: string
}

export async function listAccounts({ json, config }: ListAccountsOptions): Promise<void> {
  const accounts = await withOperatorStore(config, async (store) => {
    const all: AccountRecord[] = []
    for (let page: AccountRecord[] | null = null; page === null || page.length === PAGE; ) {
      const last = all.at(-1)
      page = await store.listAccounts({ ...(last && { after: last.name }), limit: PAGE, nowMs: Date.now() })
      all.push(...page)
    }
    return all.map(accountView)
  })
  if (json) return printLine(JSON.stringify(accounts, null, 2))
  if (accounts.length === 0)
    return printLine('There are no accounts. Make one: parley keys create --account NAME --tier TIER')
  const rows = accounts.map((one) => [
    one.name,
    one.tier,
    `${one.active_keys} of ${one.keys}`,
    String(one.max_monthly_jobs),
    String(one.max_monthly_tokens),
    one.suspended_at === null ? '' : `since ${new Date(one.suspended_at * 1000).toISOString().slice(0, 19)}Z`,
  ])
  printLine(
    table([['ACCOUNT', 'TIER', 'ACTIVE KEYS', 'JOBS A MONTH', 'TOKENS A MONTH', 'SUSPENDED'], ...rows]),
  )
}

/** Prints the secret and nothing else, so that a script can take it. */
export async function rotateOrPrintSecret(
  name: string,
  { rotate, json, config }: { rotate?: true; json?: true; config?: string },
): Promise<void> {
  known(name)
  const secrets = await onRecord(config, (store, clock) =>
    showSecret(store, clock, name, rotate ? makeSecret() : null),
  )
  if (!secrets) throw noSuchAccount(name)
  const secret = secrets.current
  printLine(json ? JSON.stringify({ account: name, secret }, null, 2) : secret)
}

export async function setTier(
  name: string,
  tier: TierName,
  { json, config }: { json?: true; config?: string },
): Promise<void> {
  known(name)
  if (!(await onRecord(config, (store) => settingTier(store, name, tier)))) throw noSuchAccount(name)
  if (json) return printLine(JSON.stringify({ account: name, tier }, null, 2))
  printLine(`Account ${name} has tier ${tier}. A running server knows within seconds.`)
}

export async function suspend(
  name: string,
  { cancel, json, config }: { cancel?: true; json?: true; config?: string },
): Promise<void> {
  known(name)
  const done = cancel
    ? await onRecord(config, (store, clock) => suspendAccountAndCancel(store, clock, name))
    : await onRecord(config, (store, clock) => suspendAccount(store, name, clock.nowMs()))
  if (!done) throw noSuchAccount(name)
  const cancelled = 'cancelled' in done ? done.cancelled : null
  if (json) {
    const view = { name, suspended_at: secondsOf(done.sinceMs), ...(cancelled !== null && { cancelled }) }
    return printLine(JSON.stringify(view, null, 2))
  }
  printLine(
    `Account ${name} is suspended: a running server lets it create no job within seconds. It may still read.`,
  )
  if (cancelled !== null) printLine(`${cancelled} of its jobs are cancelled.`)
}

export async function resume(
  name: string,
  { json, config }: { json?: true; config?: string },
): Promise<void> {
  known(name)
  if (!(await onRecord(config, (store) => suspendAccount(store, name, null)))) throw noSuchAccount(name)
  if (json) return printLine(JSON.stringify({ name, suspended_at: null }, null, 2))
  printLine(`Account ${name} may create jobs again. A running server knows within seconds.`)
}

export interface CapOptions {
  readonly jobs?: CapText
  readonly tokens?: CapText
  readonly json?: true
  readonly config?: string
}

export async function cap(name: string, { jobs, tokens, json, config }: CapOptions): Promise<void> {
  if (jobs === undefined && tokens === undefined) {
    throw new CommandError('Name a cap to be set: --jobs N|none|tier, --tokens N|none|tier, or both.')
  }
  known(name)
  const before = await withOperatorStore(config, (store) => findAccount(store, name))
  if (!before) throw noSuchAccount(name)
  const caps = {
    monthlyJobs: jobs === undefined ? before.caps.monthlyJobs : readCap(jobs),
    monthlyTokens: tokens === undefined ? before.caps.monthlyTokens : readCap(tokens),
  }
  if (!(await onRecord(config, (store) => setCaps(store, name, caps)))) throw noSuchAccount(name)
  const view = capsView(caps)
  if (json) return printLine(JSON.stringify({ name, ...view }, null, 2))
  printLine(
    `Account ${name} may use, a month: ${wordsOf(view.max_monthly_jobs, 'jobs')}, ${wordsOf(view.max_monthly_tokens, 'tokens')}. A running server knows within seconds.`,
  )
}

function wordsOf(cap: CapText, unit: string): string {
  if (cap === 'tier') return `as many ${unit} as its tier says`
  return cap === 'none' ? `${unit} without end` : `${cap} ${unit}`
}

/** What cannot be a name is not even noted. */
function known(name: string): void {
  if (!ACCOUNT_NAME.test(name)) throw noSuchAccount(name)
}
