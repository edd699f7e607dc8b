/** `parley accounts`: list accounts; show secrets; set tiers and caps; suspend and resume. */
import { ACCOUNT_NAME } from '../accounts/issue-key.ts'
import { accountView, type CapText, capsView, secondsOf } from '../admin/account-view.ts'
import {
  secretAction,
  setCapsAction,
  setTierAction,
  suspendAction,
  suspendAndCancelAction,
} from '../admin/actions/accounts.ts'
import type { TierName } from '../job/tier.ts'
import { makeSecret } from '../net/signature.ts'
import type { AccountRecord } from '../store/account-store.ts'
import { CommandError } from './command-error.ts'
import { noSuchAccount } from './no-such-account.ts'
import { printLine } from './output.ts'
import { table } from './table.ts'
import { performAction, withOperatorStore } from './with-operator-store.ts'

/** Accounts read per query. */
const PAGE_SIZE = 1000

const TAKES_EFFECT = 'Running servers apply this within a few seconds.'

export interface ListAccountsOptions {
  readonly json?: true
  readonly config?: string
}

export async function listAccounts({ json, config }: ListAccountsOptions): Promise<void> {
  const accounts = await withOperatorStore(config, async (store) => {
    const all: AccountRecord[] = []
    for (let page: AccountRecord[] | null = null; page === null || page.length === PAGE_SIZE; ) {
      const last = all.at(-1)
      page = await store.listAccounts({
        ...(last && { after: last.name }),
        limit: PAGE_SIZE,
        nowMs: Date.now(),
      })
      all.push(...page)
    }
    return all.map(accountView)
  })
  if (json) return printLine(JSON.stringify(accounts, null, 2))
  if (accounts.length === 0)
    return printLine('There are no accounts. Create one: parley keys create --account NAME --tier TIER')
  const rows = accounts.map((account) => [
    account.name,
    account.tier,
    `${account.active_keys} of ${account.keys}`,
    String(account.max_monthly_jobs),
    String(account.max_monthly_tokens),
    `${account.open_jobs} / ${account.max_open_jobs}`,
    `${account.stored_bytes} / ${account.max_stored_bytes}`,
    account.suspended_at === null
      ? ''
      : `since ${new Date(account.suspended_at * 1000).toISOString().slice(0, 19)}Z`,
  ])
  printLine(
    table([
      [
        ...['ACCOUNT', 'TIER', 'ACTIVE KEYS', 'JOBS PER MONTH', 'TOKENS PER MONTH'],
        ...['OPEN JOBS / MAX', 'STORED BYTES / MAX', 'SUSPENDED'],
      ],
      ...rows,
    ]),
  )
}

/** Prints the secret and nothing else, so that scripts can use the output. */
export async function rotateOrPrintSecret(
  name: string,
  { rotate, json, config }: { rotate?: true; json?: true; config?: string },
): Promise<void> {
  assertAccountName(name)
  const secrets = await performAction(config, (store, clock) =>
    secretAction(store, clock, name, rotate ? makeSecret() : null),
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
  assertAccountName(name)
  if (!(await performAction(config, (store) => setTierAction(store, name, tier)))) throw noSuchAccount(name)
  if (json) return printLine(JSON.stringify({ account: name, tier }, null, 2))
  printLine(`Account ${name} has tier ${tier}. ${TAKES_EFFECT}`)
}

export async function suspend(
  name: string,
  { cancel, json, config }: { cancel?: true; json?: true; config?: string },
): Promise<void> {
  assertAccountName(name)
  const result = cancel
    ? await performAction(config, (store, clock) => suspendAndCancelAction(store, clock, name))
    : await performAction(config, (store, clock) => suspendAction(store, name, clock.nowMs()))
  if (!result) throw noSuchAccount(name)
  const cancelled = 'cancelled' in result ? result.cancelled : null
  if (json) {
    const view = { name, suspended_at: secondsOf(result.sinceMs), ...(cancelled !== null && { cancelled }) }
    return printLine(JSON.stringify(view, null, 2))
  }
  printLine(
    `Account ${name} is suspended. New jobs are rejected within a few seconds. It can still read its jobs.`,
  )
  if (cancelled !== null) printLine(`${cancelled} ${cancelled === 1 ? 'job was' : 'jobs were'} cancelled.`)
}

export async function resume(
  name: string,
  { json, config }: { json?: true; config?: string },
): Promise<void> {
  assertAccountName(name)
  if (!(await performAction(config, (store) => suspendAction(store, name, null)))) throw noSuchAccount(name)
  if (json) return printLine(JSON.stringify({ name, suspended_at: null }, null, 2))
  printLine(`Account ${name} can create jobs again. ${TAKES_EFFECT}`)
}

export interface CapOptions {
  readonly jobs?: CapText
  readonly tokens?: CapText
  readonly openJobs?: CapText
  readonly storedBytes?: CapText
  readonly json?: true
  readonly config?: string
}

export async function cap(name: string, options: CapOptions): Promise<void> {
  const { jobs, tokens, openJobs, storedBytes, json, config } = options
  if ([jobs, tokens, openJobs, storedBytes].every((given) => given === undefined)) {
    throw new CommandError(
      'There is nothing to set. Pass at least one of --jobs, --tokens, --open-jobs and --stored-bytes, each with N, none or tier.',
    )
  }
  assertAccountName(name)
  const given = {
    ...(jobs !== undefined && { max_monthly_jobs: jobs }),
    ...(tokens !== undefined && { max_monthly_tokens: tokens }),
    ...(openJobs !== undefined && { max_open_jobs: openJobs }),
    ...(storedBytes !== undefined && { max_stored_bytes: storedBytes }),
  }
  const caps = await performAction(config, (store) => setCapsAction(store, name, given))
  if (!caps) throw noSuchAccount(name)
  const view = capsView(caps)
  if (json) return printLine(JSON.stringify({ name, ...view }, null, 2))
  printLine(
    `Monthly caps of account ${name}: ${capText(view.max_monthly_jobs, 'jobs')}, ${capText(view.max_monthly_tokens, 'tokens')}.`,
  )
  printLine(
    `Quotas: ${capText(view.max_open_jobs, 'open jobs')}, ${capText(view.max_stored_bytes, 'stored bytes')}. ${TAKES_EFFECT}`,
  )
}

function capText(cap: CapText, unit: string): string {
  if (cap === 'tier') return `tier default for ${unit}`
  return cap === 'none' ? `unlimited ${unit}` : `${cap} ${unit}`
}

/** An account with another name cannot exist, so the command does not write to the audit log. */
function assertAccountName(name: string): void {
  if (!ACCOUNT_NAME.test(name)) throw noSuchAccount(name)
}
