/** What a server's metrics say. */

/** Reads until a gauge has at least this value. */
export async function gauge(url: string, name: string, atLeast: number): Promise<void> {
  const line = new RegExp(`^${name} (\\d+)$`, 'm')
  for (;;) {
    const text = await (await fetch(`${url}/metrics`)).text()
    const value = line.exec(text)?.[1]
    if (value === undefined) throw new Error(`there is no gauge ${name}`)
    if (Number(value) >= atLeast) return
  }
}
