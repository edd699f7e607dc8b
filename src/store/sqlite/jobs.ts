/**
 * The life of jobs in SQLite: accept, claim, settle, give back. Synchronous, and always called inside a transaction
 * that the storage thread began.
 *
 * Fair order is start-time fair queueing: a job that must wait takes as its turn the later of the line's turn (that of
 * the job claimed last) and its account's next turn, and moves the latter on by its step. So an account with a
 * hundred thousand waiting jobs stands far behind in its own line only, and a claim stays one index scan.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { Accepted, Depth, PoisonCandidates } from '../store.ts'
import type { SqliteUsage } from './usage.ts'
import { type Cell, CLAIMED_COLUMNS, GONE, NEW_JOB_COLUMNS, STALE } from './wire.ts'

/** How a job ended, as columns. */
export interface Ended {
  readonly status: string
  readonly content: string | null
  readonly error: string | null
  readonly usage: string
  readonly receipt: string
}

/** What is kept in memory about the tables: counting them would take as long as the line is. */
export interface Kept {
  readonly nextSeq: number
  readonly turn: number
  readonly waiting: number
  readonly assigned: number
}

interface Keep {
  readonly fingerprint: string
  readonly untilMs: number
}

export class SqliteJobs {
  readonly #statements: ReturnType<typeof prepare>
  readonly #db: DatabaseSync
  readonly #usage: SqliteUsage
  #nextSeq = 1
  /** The turn claimed last. */
  #turn = 0
  readonly #nextTurns = new Map<string, number>()
  #waiting = 0
  #assigned = 0

  constructor(db: DatabaseSync, usage: SqliteUsage) {
    this.#db = db
    this.#usage = usage
    this.#statements = prepare(db)
    this.recount()
  }

  /** Takes back what was kept in memory of a transaction that was rolled back. */
  restore({ nextSeq, turn, waiting, assigned }: Kept): void {
    this.#nextSeq = nextSeq
    this.#turn = turn
    this.#waiting = waiting
    this.#assigned = assigned
    this.#nextTurns.clear()
  }

  /** What is kept in memory about the tables, for `restore`. */
  kept(): Kept {
    return {
      nextSeq: this.#nextSeq,
      turn: this.#turn,
      waiting: this.#waiting,
      assigned: this.#assigned,
    }
  }

  /** Reads it anew from the tables: at the start, and where others have ended jobs. */
  recount(): void {
    const one = (sql: string) => Number(Object.values(this.#db.prepare(sql).get() ?? { none: 0 })[0] ?? 0)
    // A kept answer may outlive its job's other rows by a little, and its row number must not be given again.
    this.#nextSeq =
      Math.max(one('select max(seq) from requests'), one('select max(seq) from kept_answers')) + 1
    this.#turn = one('select turn from line')
    this.#waiting = one('select count(*) from jobs indexed by jobs_by_age where turn is not null')
    this.#assigned = one('select count(*) from jobs indexed by jobs_held where node is not null')
    this.#nextTurns.clear()
  }

  /** @param rows the jobs' columns one after another, as `pushNewJob` wrote them */
  accept(
    node: string,
    nowMs: number,
    idempotency: { key: string; fingerprint: string; untilMs: number } | null,
    rows: readonly Cell[],
  ): Accepted {
    const s = this.#statements
    if (idempotency) {
      const earlier = s.findIdempotency.get(String(rows[1]), idempotency.key)
      if (earlier && Number(earlier.until_ms) > nowMs) {
        if (earlier.fingerprint !== idempotency.fingerprint) return { kind: 'conflict' }
        const jobIds = JSON.parse(String(earlier.job_ids)) as string[]
        // A request whose jobs have vanished is made anew, rather than answered with ids that lead nowhere.
        if (jobIds.every((id) => s.exists.get(id))) return { kind: 'repeated', jobIds }
      }
    }
    const ids: string[] = []
    for (let at = 0; at < rows.length; at += NEW_JOB_COLUMNS) {
      ids.push(String(rows[at]))
      this.#insert(node, nowMs, rows, at)
    }
    if (idempotency) {
      const { key, fingerprint, untilMs } = idempotency
      s.insertIdempotency.run(String(rows[1]), key, fingerprint, JSON.stringify(ids), untilMs)
    }
    return { kind: 'accepted' }
  }

  #insert(node: string, nowMs: number, rows: readonly Cell[], at: number): void {
    const cell = (index: number) => rows[at + index] ?? null
    const handedOff = cell(4) === 1
    const seq = this.#nextSeq++
    const account = String(cell(1))
    const turn = handedOff ? null : this.#takeTurn(account, Number(cell(5)))
    this.#statements.insertJob.run(
      cell(0),
      seq,
      account,
      cell(2),
      cell(3),
      handedOff ? 'assigned' : 'pending',
      turn,
      handedOff ? node : null,
      handedOff ? 1 : 0,
      cell(6),
      cell(7),
      cell(11) === null ? 0 : 1,
      cell(8),
      handedOff ? nowMs : null,
      null,
    )
    this.#statements.insertRequest.run(seq, cell(9), cell(10), cell(11))
    if (handedOff) this.#assigned += 1
    else this.#waiting += 1
  }

  #takeTurn(account: string, step: number): number {
    let next = this.#nextTurns.get(account)
    if (next === undefined) {
      next = Number(this.#statements.readNextTurn.get(account)?.next_turn ?? 0)
    }
    const turn = Math.max(this.#turn, next)
    this.#nextTurns.set(account, turn + step)
    this.#statements.writeNextTurn.run(account, turn + step)
    return turn
  }

  /** Returns the claimed jobs' columns, as `readClaimedJob` takes them. */
  claim(node: string, limit: number, nowMs: number, suspects: PoisonCandidates | null): Cell[][] {
    const rows = this.#headOfLine(limit, suspects)
    for (const row of rows) {
      this.#turn = Math.max(this.#turn, Number(row.pop()))
      this.#statements.claim.run(node, nowMs, row[0] ?? null)
    }
    if (rows.length > 0) this.#statements.writeTurn.run(this.#turn)
    this.#waiting -= rows.length
    this.#assigned += rows.length
    return rows
  }

  #headOfLine(limit: number, suspects: PoisonCandidates | null): Cell[][] {
    const s = this.#statements
    if (!suspects) return s.headOfLine.all(Number.MAX_SAFE_INTEGER, limit) as unknown as Cell[][]
    const some = s.suspects.all(suspects.crashCount, Math.min(limit, suspects.limit)) as unknown as Cell[][]
    const others = s.headOfLine.all(suspects.crashCount, limit - some.length) as unknown as Cell[][]
    return [...some, ...others]
  }

  /** Returns the row of the outcome, or `STALE` or `GONE`. */
  settle(
    claim: { jobId: string; node: string; attempt: number },
    ended: Ended,
    keep: Keep | null,
    nowMs: number,
  ): number {
    const s = this.#statements
    const { jobId, node, attempt } = claim
    const job = s.settle.get(ended.status, nowMs, jobId, node, attempt)
    if (!job) return s.exists.get(jobId) ? STALE : GONE
    const seq = Number(job.seq)
    const account = String(job.account)
    this.#end(seq, ended, keep)
    this.#count(account, String(job.model), ended, nowMs)
    if (job.has_callback) s.owe.run(seq, jobId, account, nowMs)
    this.#assigned -= 1
    return seq
  }

  /**
   * A job whose row is written once, as it ended: never held, never in line. Returns the row of the outcome.
   * @param row the job's columns, as `pushNewJob` wrote them
   */
  acceptEnded(row: readonly Cell[], ended: Ended, keep: Keep | null, nowMs: number): number {
    const [id, account, tier, model, , , ttl, tokens, created, messages, format, callback] = row.map(
      (cell) => cell ?? null,
    ) as [Cell, Cell, Cell, Cell, Cell, Cell, Cell, Cell, Cell, Cell, Cell, Cell]
    const s = this.#statements
    const seq = this.#nextSeq++
    const owing = callback === null ? 0 : 1
    const times = [created, created, nowMs] as const
    s.insertJob.run(id, seq, account, tier, model, ended.status, null, null, 1, ttl, tokens, owing, ...times)
    s.insertRequest.run(seq, messages, format, callback)
    this.#end(seq, ended, keep)
    this.#count(String(account), String(model), ended, nowMs)
    if (owing) s.owe.run(seq, id, account, nowMs)
    return seq
  }

  #end(seq: number, { content, error, usage, receipt }: Ended, keep: Keep | null): void {
    this.#statements.insertOutcome.run(seq, content, error, usage, receipt)
    if (keep) this.#statements.keepAnswer.run(seq, keep.fingerprint, keep.untilMs)
  }

  #count(account: string, model: string, { status, usage: usageJson }: Ended, nowMs: number): void {
    this.#usage.note({ account, model, failed: status === 'failed', usageJson, nowMs })
  }

  giveBack(node: string, claims: readonly Cell[]): void {
    for (let at = 0; at < claims.length; at += 2) {
      const { changes } = this.#statements.giveBack.run(
        this.#turn,
        claims[at] ?? null,
        node,
        claims[at + 1] ?? null,
      )
      this.#returned(Number(changes))
    }
  }

  /** Only one server uses the file, so whoever else still holds a job is dead. */
  reclaim(node: string): number {
    const changes = Number(this.#statements.reclaim.run(this.#turn, node).changes)
    this.#returned(changes)
    return changes
  }

  #returned(jobs: number): void {
    this.#waiting += jobs
    this.#assigned -= jobs
  }

  depth(): Depth {
    const oldest = this.#statements.oldest.get()
    return {
      waiting: this.#waiting,
      assigned: this.#assigned,
      oldestCreatedAtMs: oldest ? Number(oldest.created_at_ms) : null,
    }
  }

  probe(nowMs: number): void {
    this.#statements.probe.run(nowMs)
  }
}

function prepare(db: DatabaseSync) {
  const headOfLine: StatementSync = db.prepare(
    `select ${CLAIMED_COLUMNS}, j.turn from jobs j indexed by jobs_in_line join requests r on r.seq = j.seq
     where j.turn is not null and j.deaths < ? order by j.turn, j.id limit ?`,
  )
  const suspects: StatementSync = db.prepare(
    `select ${CLAIMED_COLUMNS}, j.turn from jobs j indexed by jobs_that_died join requests r on r.seq = j.seq
     where j.turn is not null and j.deaths > 0 and j.deaths >= ? order by j.turn, j.id limit ?`,
  )
  headOfLine.setReturnArrays(true)
  suspects.setReturnArrays(true)
  return {
    headOfLine,
    suspects,
    insertJob: db.prepare(
      `insert into jobs (id, seq, account, tier, model, status, turn, node, attempt, deaths, cache_ttl_s,
         input_tokens, has_callback, created_at_ms, claimed_at_ms, settled_at_ms)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?)`,
    ),
    insertRequest: db.prepare(
      'insert into requests (seq, messages, response_format, callback) values (?, ?, ?, ?)',
    ),
    claim: db.prepare(
      `update jobs set status = 'assigned', turn = null, node = ?, attempt = attempt + 1, claimed_at_ms = ?
       where id = ?`,
    ),
    settle: db.prepare(
      `update jobs set status = ?, settled_at_ms = ?, node = null
       where id = ? and node = ? and attempt = ? and status = 'assigned' returning seq, has_callback, account, model`,
    ),
    exists: db.prepare('select 1 from jobs where id = ?'),
    insertOutcome: db.prepare(
      'insert into outcomes (seq, content, error, usage, receipt) values (?, ?, ?, ?, ?)',
    ),
    keepAnswer: db.prepare('insert into kept_answers (seq, fingerprint, until_ms) values (?, ?, ?)'),
    owe: db.prepare(
      'insert into callbacks (seq, job_id, account, owed_since_ms, due_at_ms) values (?1, ?2, ?3, ?4, ?4)',
    ),
    giveBack: db.prepare('update jobs set node = null, turn = ? where id = ? and node = ? and attempt = ?'),
    reclaim: db.prepare(
      `update jobs indexed by jobs_held set node = null, turn = ?, deaths = deaths + 1
       where node is not null and node <> ?`,
    ),
    findIdempotency: db.prepare(
      'select fingerprint, job_ids, until_ms from idempotency where account = ? and key = ?',
    ),
    insertIdempotency: db.prepare(
      'insert or replace into idempotency (account, key, fingerprint, job_ids, until_ms) values (?, ?, ?, ?, ?)',
    ),
    readNextTurn: db.prepare('select next_turn from turns where account = ?'),
    writeNextTurn: db.prepare('insert or replace into turns (account, next_turn) values (?, ?)'),
    writeTurn: db.prepare('update line set turn = ?'),
    oldest: db.prepare(
      'select created_at_ms from jobs indexed by jobs_by_age where turn is not null order by id limit 1',
    ),
    probe: db.prepare('update probe set at_ms = ?'),
  }
}
