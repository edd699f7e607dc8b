/** Reads the database file of a stopped server directly. */
import { DatabaseSync } from 'node:sqlite'

export function jobsByContent(file: string): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { messages } of rows(file, 'select messages from jobs join requests using (seq)')) {
    const content = (JSON.parse(String(messages)) as { content: string }[])[0]?.content ?? ''
    counts.set(content, (counts.get(content) ?? 0) + 1)
  }
  return counts
}

export function jobsByStatus(file: string): Readonly<Record<string, number>> {
  const found = rows(file, 'select status, count(*) as jobs from jobs group by status')
  return Object.fromEntries(found.map(({ status, jobs }) => [String(status), Number(jobs)]))
}

export function outcomes(file: string): { model: string; content: string }[] {
  const sql = "select model, content from jobs join outcomes using (seq) where status = 'completed'"
  return rows(file, sql).map(({ model, content }) => ({
    model: String(model),
    content: JSON.parse(String(content)) as string,
  }))
}

export function usageSums(file: string): Readonly<Record<string, Readonly<Record<string, number>>>> {
  const found = rows(
    file,
    `select model, sum(jobs) as jobs, sum(failed_jobs) as failed, sum(calls) as calls,
       sum(input_tokens) as input, sum(output_tokens) as output
     from usage group by model order by model`,
  )
  return Object.fromEntries(
    found.map(({ model, ...sums }) => [String(model), { ...sums } as Record<string, number>]),
  )
}

export function rows(file: string, sql: string): Record<string, unknown>[] {
  const db = new DatabaseSync(file)
  try {
    return db.prepare(sql).all()
  } finally {
    db.close()
  }
}
