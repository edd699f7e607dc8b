/** Reads a server's metrics. */
import { eventually } from '../support/eventually.ts'

/** Reads the metrics until a gauge has at least this value. */
export async function gauge(url: string, name: string, atLeast: number): Promise<void> {
  const line = new RegExp(`^${name} (\\d+)$`, 'm')
  const read = async () => {
    const text = await (await fetch(`${url}/metrics`)).text()
    const value = line.exec(text)?.[1]
    if (value === undefined) throw new Error(`there is no gauge ${name}`)
    return Number(value)
  }
  await eventually(read, (value) => value >= atLeast)
}
