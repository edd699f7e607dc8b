/**
 * Shows how Postgres executes a claim: which indexes and how many pages it reads, and whether it scans a whole table. Postgres
 * may choose a custom or a generic plan for a prepared statement, so the benchmark reads both. It rolls the claims back.
 */
import pg from 'pg'
import { WALK } from '../../src/store/postgres/claim.ts'
import { connectionSettings } from '../../src/store/postgres/database.ts'
import { FRONT } from '../../src/store/route-places.ts'
import { WALK_ROWS } from '../../src/store/store.ts'
import type { Postgres } from '../harness/postgres.ts'
import { ROUTE } from './queue-store.ts'

interface PlanNode {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'CTE Name'?: string
  readonly 'Actual Rows'?: number
  readonly 'Actual Loops'?: number
  readonly 'Shared Hit Blocks'?: number
  readonly 'Shared Read Blocks'?: number
  readonly 'Rows Removed by Filter'?: number
  readonly Plans?: readonly PlanNode[]
}

export interface ClaimPlan {
  readonly jobs: number
  readonly from: 'floor' | 'front'
  readonly values: 'known' | 'any'
  readonly ms: number
  readonly pages: number
  /** Each entry has the form `index (rows)`. */
  readonly scans: readonly string[]
  readonly whole: readonly string[]
}

const MODES = { known: 'force_custom_plan', any: 'force_generic_plan' } as const
/** A sequential scan is not reported if it reads at most this many rows, because it costs little. */
const SMALL = 100

/**
 * @param from where the scan begins: at the first queued job (`floor`), or at the start of the index (`front`)
 */
export async function claimPlans(
  postgres: Postgres,
  database: string,
  limit: number,
  from: 'floor' | 'front',
): Promise<ClaimPlan[]> {
  // Connection settings affect plans, so the client connects like a node.
  const client = new pg.Client(connectionSettings(postgres.url(database), null))
  await client.connect()
  try {
    await client.query(`prepare claim as ${WALK.text}`)
    const { rows } = await client.query<{ turn: string }>(
      'select coalesce(min(turn), 0) as turn from open_jobs where turn is not null',
    )
    const turn = from === 'front' ? 0 : Number(rows[0]?.turn)
    const plans: ClaimPlan[] = []
    for (const values of ['known', 'any'] as const) {
      await client.query(`set plan_cache_mode = ${MODES[values]}`)
      await client.query('begin')
      const explained = await client.query<{ 'QUERY PLAN': [{ Plan: PlanNode; 'Execution Time': number }] }>(
        `explain (analyze, buffers, format json) execute claim(
          'bench', ${limit}, 0, '${ROUTE}', ${turn}, '${FRONT.id}', ${limit + WALK_ROWS}, '{}', '{}')`,
      )
      await client.query('rollback')
      const [first] = explained.rows[0]?.['QUERY PLAN'] ?? []
      if (first) plans.push(summed(first.Plan, first['Execution Time'], limit, from, values))
    }
    return plans
  } finally {
    await client.end()
  }
}

function summed(
  plan: PlanNode,
  ms: number,
  jobs: number,
  from: ClaimPlan['from'],
  values: ClaimPlan['values'],
): ClaimPlan {
  const scans = scansIn(plan).filter((node) => (node['Actual Loops'] ?? 0) > 0)
  const rowsOf = (node: PlanNode) => (node['Actual Rows'] ?? 0) * (node['Actual Loops'] ?? 0)
  return {
    jobs,
    from,
    values,
    ms,
    pages: (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0),
    scans: scans.map(
      (node) => `${node['Index Name'] ?? node['Relation Name']} (${Math.round(rowsOf(node))})`,
    ),
    whole: scans
      .filter((node) => node['Node Type'] === 'Seq Scan')
      .filter((node) => rowsOf(node) + (node['Rows Removed by Filter'] ?? 0) > SMALL)
      .map((node) => node['Relation Name'] ?? ''),
  }
}

function scansIn(plan: PlanNode): PlanNode[] {
  const isScan = plan['Index Name'] !== undefined || plan['Node Type'] === 'Seq Scan'
  return [...(isScan ? [plan] : []), ...(plan.Plans ?? []).flatMap(scansIn)]
}
