/** Reads the CPU time and memory of a process from the kernel (Linux). A figure is 0 if its process file does not exist. */
import { readdirSync, readFileSync } from 'node:fs'

const MS_PER_TICK = 10

export function cpuMsOf(pid: number): number {
  return cpuTicks(pid).itself * MS_PER_TICK
}

/** The figure is precise to the nanosecond, for work that takes less than a tick. Only threads that are still alive count. */
export function cpuUsOfThreads(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`)
  const ns = threads.map((thread) => Number(read(`/proc/${pid}/task/${thread}/schedstat`).split(' ')[0]))
  return ns.reduce((sum, one) => sum + one, 0) / 1000
}

/** Includes child processes, whether or not they have ended. */
export function cpuMsOfFamily(pid: number): number {
  const [own, children] = [cpuTicks(pid), childrenOf(pid).map(cpuTicks)]
  return children.reduce((sum, { itself }) => sum + itself, own.itself + own.ended) * MS_PER_TICK
}

function cpuTicks(pid: number): { itself: number; ended: number } {
  const fields = read(`/proc/${pid}/stat`).split(') ').at(-1)?.split(' ') ?? []
  const at = (index: number) => Number(fields[index] ?? 0)
  return { itself: at(11) + at(12), ended: at(13) + at(14) }
}

function childrenOf(pid: number): number[] {
  return read(`/proc/${pid}/task/${pid}/children`).trim().split(' ').filter(Boolean).map(Number)
}

export function writtenBytesOf(pid: number): number {
  return Number(/^write_bytes: (\d+)$/m.exec(read(`/proc/${pid}/io`))?.[1] ?? 0)
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
