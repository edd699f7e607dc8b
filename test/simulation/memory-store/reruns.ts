/** Reruns in the reference store. */
import type { Expiry } from '../../../src/store/expiry.ts'
import {
  type EndedRerun,
  type JobToRerun,
  type OpenRerun,
  RERUN_TAKEN_MS,
  type RequestedRerun,
  type RerunEnd,
  type RerunLinks,
  type RerunRequest,
} from '../../../src/store/rerun-store.ts'
import type { MemoryDatabase, RerunRow } from './database.ts'

export function rerunOperations(db: MemoryDatabase) {
  const isFree = ({ end, takenAtMs }: RerunRow, nowMs: number) =>
    end === null && (takenAtMs === null || takenAtMs <= nowMs - RERUN_TAKEN_MS)
  return {
    requestReruns({ jobIds, withCallback, again, ofReruns, limit, nowMs }: RerunRequest): RequestedRerun[] {
      const requested: RequestedRerun[] = []
      for (const jobId of [...jobIds].sort().reverse()) {
        if (!ofReruns && [...db.reruns.values()].some(({ end }) => end?.rerunId === jobId)) continue
        const rows = [...db.reruns.values()].filter((row) => row.jobId === jobId)
        const number = rows.filter(({ end }) => !end || end.refusal === null).length
        if (requested.length === limit || (number > 0 && !again)) continue
        const id = `${jobId}/${number}`
        const open = { takenAtMs: null, endedAtMs: null, end: null }
        db.reruns.set(id, { id, jobId, withCallback, requestedAtMs: nowMs, ...open })
        requested.push({ id, jobId })
      }
      return requested
    },

    openReruns(nowMs: number, limit: number): OpenRerun[] {
      return [...db.reruns.values()]
        .filter((row) => isFree(row, nowMs))
        .sort((one, other) => one.requestedAtMs - other.requestedAtMs)
        .slice(0, limit)
        .map(({ id, jobId, withCallback }) => ({ id, jobId, withCallback }))
    },

    takeRerun(id: string, nowMs: number): boolean {
      const row = db.reruns.get(id)
      if (row === undefined || row.end !== null) return false
      if (!isFree(row, nowMs) && row.takenAtMs !== nowMs) return false
      row.takenAtMs = nowMs
      return true
    },

    endRerun(id: string, end: RerunEnd, nowMs: number): void {
      const row = db.reruns.get(id)
      if (row?.end === null) Object.assign(row, { end, endedAtMs: nowMs })
    },

    endedReruns(ids: readonly string[]): EndedRerun[] {
      return ids.flatMap((id) => {
        const row = db.reruns.get(id)
        return row?.end ? [{ id, jobId: row.jobId, ...row.end }] : []
      })
    },

    jobToRerun(jobId: string, expiry: Expiry): JobToRerun | null {
      const row = db.readable(jobId, expiry)
      const account = row === null ? undefined : db.accounts.get(row.job.account)
      if (row === null || account === undefined) return null
      const { model, messagesJson, responseFormatJson, callbackJson, createdAtMs, inputTokens } = row.job
      return {
        model,
        messagesJson,
        responseFormatJson,
        callbackJson,
        createdAtMs,
        inputTokens,
        hasEnded: row.settledAtMs !== null,
        priority: row.job.priority ?? null,
        deadlineMs: row.job.deadlineMs ?? null,
        owner: {
          name: account.name,
          tier: account.tier,
          suspendedAtMs: account.suspendedAtMs,
          caps: account.caps,
        },
      }
    },
  }
}

export function rerunLinks(db: MemoryDatabase, jobId: string): RerunLinks {
  const made = [...db.reruns.values()].flatMap(({ jobId, end }) =>
    end?.rerunId ? [{ jobId, rerunId: end.rerunId }] : [],
  )
  const rerunOf = made.find(({ rerunId }) => rerunId === jobId)?.jobId ?? null
  const reruns = made.filter((one) => one.jobId === jobId).map(({ rerunId }) => rerunId)
  return {
    rerunOf: rerunOf !== null && db.jobs.has(rerunOf) ? rerunOf : null,
    reruns: reruns.filter((id) => db.jobs.has(id)).sort(),
  }
}
