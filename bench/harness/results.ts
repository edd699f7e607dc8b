/** Stores measurements in `results.json`. A run replaces only the results of its own benchmarks. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, platform, release, totalmem } from 'node:os'

const FILE = new URL('../results.json', import.meta.url)

export function keepResults(name: string, rounds: number, results: object): void {
  const kept = existsSync(FILE) ? (JSON.parse(readFileSync(FILE, 'utf8')) as Record<string, unknown>) : {}
  kept[name] = { measured_at: new Date().toISOString(), rounds, machine: machine(), ...results }
  writeFileSync(FILE, `${JSON.stringify(kept, null, 2)}\n`)
}

export function pictureOf(name: string): URL {
  return new URL(`../pictures/${name}.svg`, import.meta.url)
}

export function machine(): { cores: number; cpu: string; memory_gib: number; system: string; node: string } {
  const all = cpus()
  return {
    cores: all.length,
    cpu: all[0]?.model ?? 'unknown',
    memory_gib: Math.round(totalmem() / 2 ** 30),
    system: `${platform()} ${release()}`,
    node: process.version,
  }
}
