/** How much memory a process has taken. */
import { readFileSync } from 'node:fs'

const MIB = 1024 * 1024

/** The resident memory of the process now, in MiB. */
export function residentMiB(pid: number): number {
  return numberOf(pid, 'VmRSS') / 1024
}

/** Watches the most resident memory that a process takes, in MiB. */
export function peakOf(pid: number): { readonly peakMiB: () => number; readonly end: () => void } {
  let peak = residentMiB(pid)
  const look = () => {
    peak = Math.max(peak, residentMiB(pid))
  }
  const timer = setInterval(look, 20)
  return {
    peakMiB: () => {
      look()
      return peak
    },
    end: () => clearInterval(timer),
  }
}

export function mib(bytes: number): number {
  return bytes / MIB
}

function numberOf(pid: number, name: string): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0)
}
