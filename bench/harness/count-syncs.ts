/** Counts the disk syncs of processes with strace. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'

/**
 * Counts the fsync and fdatasync calls of all threads for `ms` milliseconds. The processes run slower meanwhile. Returns NaN if
 * strace is not installed or not permitted.
 */
export async function countSyncs(pids: readonly number[], ms: number): Promise<number> {
  const ofProcesses = pids.flatMap((pid) => ['-p', String(pid)])
  const strace = spawn('strace', ['-f', '-c', '-e', 'trace=fsync,fdatasync', ...ofProcesses])
  let report = ''
  strace.stderr.setEncoding('utf8').on('data', (text: string) => {
    report += text
  })
  const ended = once(strace, 'close').then(
    () => true,
    () => false,
  )
  const timer = setTimeout(() => strace.kill('SIGINT'), ms)
  const ran = await ended
  clearTimeout(timer)
  if (!ran || !report.includes('attached')) return Number.NaN
  const calls = report.matchAll(/^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?f(?:data)?sync$/gm)
  return [...calls].reduce((sum, [, count]) => sum + Number(count), 0)
}
