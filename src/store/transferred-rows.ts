/** Rows for a transfer, which the sources of every store read alike. */
import { numberOf, numberOrNull, type Row, textOf, textOrNull } from './rows.ts'
import {
  readTransferredCallback,
  type TransferredAccount,
  type TransferredIdempotencyKey,
  type TransferredJob,
  type TransferredKey,
  type TransferredOutcome,
  type TransferredQueuedJob,
  type TransferredResponse,
} from './transfer-contract.ts'

export function readTransferredAccount(row: Row): TransferredAccount {
  return {
    name: textOf(row, 'name'),
    tier: textOf(row, 'tier'),
    secret: textOf(row, 'secret'),
    previousSecret: textOrNull(row, 'previous_secret'),
    rotatedAtMs: numberOrNull(row, 'rotated_at_ms'),
    suspendedAtMs: numberOrNull(row, 'suspended_at_ms'),
    capJobs: numberOrNull(row, 'cap_jobs'),
    capTokens: numberOrNull(row, 'cap_tokens'),
    capOpenJobs: numberOrNull(row, 'cap_open_jobs'),
    capStoredBytes: numberOrNull(row, 'cap_stored_bytes'),
    nextTurn: numberOrNull(row, 'next_turn'),
  }
}

export function readTransferredKey(row: Row): TransferredKey {
  return {
    id: textOf(row, 'id'),
    account: textOf(row, 'account'),
    hash: textOf(row, 'hash'),
    createdAtMs: numberOf(row, 'created_at_ms'),
    expiresAtMs: numberOrNull(row, 'expires_at_ms'),
    revokedAtMs: numberOrNull(row, 'revoked_at_ms'),
  }
}

/** @param turn the queue's turn, for jobs that a node held */
export function readTransferredJob(row: Row, turn: number): TransferredJob {
  return {
    id: textOf(row, 'id'),
    account: textOf(row, 'account'),
    tier: textOf(row, 'tier'),
    model: textOf(row, 'model'),
    cacheTtlS: numberOf(row, 'cache_ttl_s'),
    inputTokens: numberOf(row, 'input_tokens'),
    createdAtMs: numberOf(row, 'created_at_ms'),
    messages: textOf(row, 'messages'),
    responseFormat: textOf(row, 'response_format'),
    callback: textOrNull(row, 'callback'),
    attempt: numberOf(row, 'attempt'),
    state: row.settled_at_ms === null ? readQueued(row, turn) : readOutcome(row),
  }
}

function readQueued(row: Row, turn: number): TransferredQueuedJob {
  const wasHeld = row.turn === null
  const ownTurn = wasHeld ? turn : numberOf(row, 'turn')
  const wait = {
    route: textOf(row, 'route'),
    earlier: textOrNull(row, 'earlier'),
    sinceMs: numberOrNull(row, 'waits_since_ms'),
    waitedMs: numberOrNull(row, 'waited_ms'),
  }
  return { kind: 'waits', turn: ownTurn, crashCount: numberOf(row, 'deaths'), wasHeld, wait }
}

function readOutcome(row: Row): TransferredOutcome {
  return {
    kind: 'ended',
    status: textOf(row, 'status'),
    content: textOrNull(row, 'content'),
    error: textOrNull(row, 'error'),
    usage: textOf(row, 'usage'),
    receipt: textOf(row, 'receipt'),
    crashCount: numberOf(row, 'deaths'),
    claimedAtMs: numberOrNull(row, 'claimed_at_ms'),
    settledAtMs: numberOf(row, 'settled_at_ms'),
    callback: readTransferredCallback(row),
  }
}

export function readTransferredResponse(row: Row): TransferredResponse {
  return {
    jobId: textOf(row, 'job_id'),
    fingerprint: textOf(row, 'fingerprint'),
    keptAtMs: numberOf(row, 'kept_at_ms'),
    untilMs: numberOf(row, 'until_ms'),
  }
}

export function readTransferredIdempotencyKey(row: Row): TransferredIdempotencyKey {
  return {
    account: textOf(row, 'account'),
    key: textOf(row, 'key'),
    fingerprint: textOf(row, 'fingerprint'),
    jobIds: textOf(row, 'job_ids'),
    untilMs: numberOf(row, 'until_ms'),
  }
}
