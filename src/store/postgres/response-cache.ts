/** Finds cached responses in Postgres. Concurrent calls share a statement. */
import { storedTextOf } from '../compressed-text.ts'
import { numberOf } from '../rows.ts'
import type { Store } from '../store.ts'
import type { Database, Statement } from './database.ts'
import type { PostgresParts } from './parts.ts'
import { textOf } from './texts.ts'
import { eachAlone } from './unknown-commit.ts'

interface LookUp {
  readonly fingerprint: string
  readonly nowMs: number
}

export function responseCacheOperations({ database, groups }: PostgresParts): Pick<Store, 'findResponse'> {
  const lookUps = groups.add<LookUp, string | null>({
    commit: (group) => eachAlone(group, (some) => findAll(database, some)),
  })
  return { findResponse: (fingerprint, nowMs) => lookUps.submit({ fingerprint, nowMs }) }
}

async function findAll(database: Database, lookUps: readonly LookUp[]): Promise<(string | null)[]> {
  const fingerprints = lookUps.map(({ fingerprint }) => fingerprint)
  const rows = await database.query(FIND, [fingerprints, lookUps.map(({ nowMs }) => Math.floor(nowMs))])
  const byPlace = new Map(rows.map((row) => [numberOf(row, 'place'), storedTextOf(row, 'content')]))
  return lookUps.map((_, index) => byPlace.get(index + 1) ?? null)
}

const FIND: Statement = {
  repeatable: true,
  name: 'find response',
  text: `
  select r.place, ${textOf('k', 'content')} as content
  from unnest($1::text[], $2::bigint[]) with ordinality as r(fingerprint, now_ms, place)
  cross join lateral (
    select o.content, o.content_zstd from kept_answers a join outcomes o on o.id = a.job_id
    where a.fingerprint = r.fingerprint and a.until_ms > r.now_ms
    order by a.kept_at_ms desc, a.job_id desc limit 1
  ) k`,
}
