import { randomBytes } from 'node:crypto'
import pg from 'pg'
export async function freshDatabase(t: { after(end: () => unknown): void }): Promise<string> {
  const base = 'postgres://postgres@127.0.0.1:54999/postgres'
  const schema = `t_${process.pid}_${randomBytes(4).toString('hex')}`
  const client = new pg.Client(base)
  await client.connect()
  await client.query(`create schema ${schema}`)
  await client.end()
  t.after(async () => {
    const client = new pg.Client(base)
    await client.connect()
    await client.query(`drop schema ${schema} cascade`)
    await client.end()
  })
  return `${base}?options=${encodeURIComponent(`-c search_path=${schema}`)}`
}
