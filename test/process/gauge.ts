/** Reads a server's metrics. A metric's name includes its labels. */
import assert from 'node:assert/strict'
import { eventually } from '../support/eventually.ts'

export async function metric(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text()
  const line = text.split('\n').find((one) => one.startsWith(`${name} `))
  assert.ok(line, `there is no metric ${name}`)
  return Number(line.slice(name.length))
}

export async function gauge(url: string, name: string, atLeast: number): Promise<void> {
  await eventually(
    () => metric(url, name),
    (value) => value >= atLeast,
  )
}
