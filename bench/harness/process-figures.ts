/** CPU time and memory of a process, as the kernel counts them (Linux). 0 where there is no such process file. */
import { readFileSync } from 'node:fs'

/** Cores as taskset takes them, such as `0` or `0,1`. */
export type CpuSet = string

const MS_PER_TICK = 10

/** All threads, user and system. */
export function cpuMsOf(pid: number): number {
  const fields = read(`/proc/${pid}/stat`).split(') ').at(-1)?.split(' ') ?? []
  return (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) * MS_PER_TICK
}

export function rssBytesOf(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(read(`/proc/${pid}/status`))?.[1] ?? 0) * 1024
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
