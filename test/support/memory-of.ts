/** Measures how much memory a process uses. */
import { existsSync, readFileSync } from 'node:fs'

export function residentMiB(pid: number): number {
  return numberOf(pid, 'VmRSS') / 1024
}

export function peakOf(pid: number): { readonly peakMiB: () => number; readonly end: () => void } {
  let peak = 0
  const look = () => {
    if (existsSync(`/proc/${pid}`)) peak = Math.max(peak, residentMiB(pid))
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

function numberOf(pid: number, name: string): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0)
}
