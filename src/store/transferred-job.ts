/** A job for a copy, from the row that a source of any kind selects: its columns are named as the fields are. */
import { readTransferredCallback, type TransferredJob } from './transfer-contract.ts'

type Row = Readonly<Record<string, unknown>>

/** @param turn how far the line has come, for jobs that a node held */
export function readTransferredJob(row: Row, turn: number): TransferredJob {
  const {
    id,
    account,
    tier,
    model,
    cacheTtlS,
    inputTokens,
    createdAtMs,
    messages,
    responseFormat,
    callback,
  } = row as unknown as TransferredJob
  const asked = {
    id,
    account,
    tier,
    model,
    cacheTtlS,
    inputTokens,
    createdAtMs,
    messages,
    responseFormat,
    callback,
  }
  return { ...asked, attempt: Number(row.attempt), state: stateOf(row, turn) }
}

function stateOf(row: Row, turn: number): TransferredJob['state'] {
  if (row.settledAtMs === null) {
    const wasHeld = row.turn === null
    return { kind: 'waits', turn: wasHeld ? turn : Number(row.turn), deaths: Number(row.deaths), wasHeld }
  }
  const { status, content, error, usage, receipt, deaths, claimedAtMs, settledAtMs } = row
  const outcome = { status, content, error, usage, receipt, deaths, claimedAtMs, settledAtMs }
  return { kind: 'ended', ...outcome, callback: readTransferredCallback(row) } as TransferredJob['state']
}
