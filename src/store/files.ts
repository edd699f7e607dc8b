/** Both stores share this SQL, which writes files piece by piece, finds, lists, reads and deletes them. */
import type { Dialect } from './dialect.ts'
import {
  ABANDONED_MS,
  type AboutFile,
  type FileSearch,
  LEAST_PIECE_BYTES,
  type NewFile,
  PIECE_BYTES,
  type StoredFile,
} from './file-store.ts'
import { bytesOf, numberOf, numberOrNull, type Row, textOf } from './rows.ts'
import { allOf, raw, read, repeatableWrite, type Steps, sql, write } from './sql.ts'

/** A purge deletes at most this many pieces, which takes the database a few milliseconds. */
const PURGED_PIECES = 16
const AT_ONCE = raw(0)

const COLUMNS = sql`id, account, filename, purpose, bytes, created_at_ms, remove_at_ms`
const isReadable = (nowMs: number) => sql`complete and (remove_at_ms is null or remove_at_ms > ${nowMs})`

export const fileOperations = ({ lockAccount }: Dialect) => ({
  beginFile: write(function* ({ id, account, createdAtMs }: NewFile, maxFiles: number): Steps<boolean> {
    yield lockAccount(account)
    const [row = {}] = yield sql`select count(*) as files from files where account = ${account}`
    if (numberOf(row, 'files') >= maxFiles) return false
    yield sql`
      insert into files (id, account, filename, purpose, bytes, created_at_ms, complete, remove_at_ms)
      values (${id}, ${account}, '', '', 0, ${createdAtMs}, false, ${createdAtMs + ABANDONED_MS})`
    return true
  }),

  appendToFile: write(function* (
    fileId: string,
    piece: number,
    content: Uint8Array,
    nowMs: number,
  ): Steps<boolean> {
    const found = yield sql`
      update files set bytes = bytes + ${content.length}, remove_at_ms = ${nowMs + ABANDONED_MS}
      where id = ${fileId} and not complete and remove_at_ms > ${AT_ONCE} returning id`
    if (found.length === 0) return false
    yield sql`insert into file_pieces (file_id, piece, content) values (${fileId}, ${piece}, ${content})`
    return true
  }),

  completeFile: write(function* (fileId: string, about: AboutFile): Steps<StoredFile | null> {
    const { filename, purpose, expiresAtMs } = about
    const [row] = yield sql`
      update files set complete = true, filename = ${filename}, purpose = ${purpose}, remove_at_ms = ${expiresAtMs}
      where id = ${fileId} and not complete and remove_at_ms > ${AT_ONCE}
        and exists (select 1 from accounts where name = files.account)
      returning ${COLUMNS}`
    return row ? readFile(row) : null
  }),

  findFile: read(function* (account: string, fileId: string, nowMs: number): Steps<StoredFile | null> {
    const [row] = yield sql`
      select ${COLUMNS} from files where id = ${fileId} and account = ${account} and ${isReadable(nowMs)}`
    return row ? readFile(row) : null
  }),

  listFiles: read(function* (search: FileSearch): Steps<StoredFile[]> {
    const { account, purpose, afterFileId, newestFirst, limit, nowMs } = search
    const which = allOf(
      sql`account = ${account}`,
      isReadable(nowMs),
      purpose === undefined ? undefined : sql`purpose = ${purpose}`,
      afterFileId === undefined ? undefined : sql`id ${raw(newestFirst ? '<' : '>')} ${afterFileId}`,
    )
    const rows = yield sql`select ${COLUMNS} from files where ${which}
      order by id ${raw(newestFirst ? 'desc' : 'asc')} limit ${limit}`
    return rows.map(readFile)
  }),

  readPiece: read(function* (fileId: string, piece: number): Steps<Uint8Array | null> {
    const [row] = yield sql`select content from file_pieces where file_id = ${fileId} and piece = ${piece}`
    return row ? bytesOf(row, 'content') : null
  }),

  deleteFile: repeatableWrite(function* (account: string, fileId: string): Steps<boolean> {
    const rows = yield sql`
      update files set complete = false, remove_at_ms = ${AT_ONCE}
      where id = ${fileId} and account = ${account} returning id`
    return rows.length > 0
  }),

  deleteFilesOf: repeatableWrite(function* (account: string): Steps<void> {
    yield sql`update files set complete = false, remove_at_ms = ${AT_ONCE} where account = ${account}`
  }),

  // The row of a file is deleted last. Otherwise an interrupted deletion would leave content that no row names.
  purgeFiles: write(function* (nowMs: number): Steps<boolean> {
    const [file] = yield sql`
      update files set complete = false, remove_at_ms = ${AT_ONCE}
      where id = (select id from files where remove_at_ms <= ${nowMs} order by remove_at_ms limit 1) returning id`
    if (!file) return false
    const id = textOf(file, 'id')
    const pieces = yield sql`
      delete from file_pieces where file_id = ${id} and piece in (
        select piece from file_pieces where file_id = ${id} order by piece limit ${raw(PURGED_PIECES)}
      ) returning piece`
    if (pieces.length < PURGED_PIECES) yield sql`delete from files where id = ${id}`
    return true
  }),
})

/**
 * Appends to a file of a batch, and creates the file if it does not exist. The file never counts as abandoned, because its
 * batch completes it. A small last piece is stored again together with the new content, so that a file does not consist of tiny
 * pieces. Stores nothing if the file was deleted or is complete.
 */
export function* extendFile({ id, account, createdAtMs }: NewFile, content: Uint8Array): Steps<void> {
  const [file] = yield sql`
    insert into files (id, account, filename, purpose, bytes, created_at_ms, complete, remove_at_ms)
    values (${id}, ${account}, '', '', ${content.length}, ${createdAtMs}, false, null)
    on conflict (id) do update set bytes = files.bytes + excluded.bytes
    where not files.complete and files.remove_at_ms is null returning bytes`
  if (!file) return
  const [last] = yield sql`
    select piece, case when length(content) < ${raw(LEAST_PIECE_BYTES)} then content end as content
    from file_pieces where file_id = ${id} order by piece desc limit 1`
  const small = last && last.content !== null ? bytesOf(last, 'content') : null
  const first = last === undefined ? 0 : numberOf(last, 'piece') + (small === null ? 1 : 0)
  const rest = small === null ? content : Buffer.concat([small, content])
  for (let at = 0; at * PIECE_BYTES < rest.length; at++) {
    const piece = rest.subarray(at * PIECE_BYTES, (at + 1) * PIECE_BYTES)
    yield sql`
      insert into file_pieces (file_id, piece, content) values (${id}, ${first + at}, ${piece})
      on conflict (file_id, piece) do update set content = excluded.content`
  }
}

function readFile(row: Row): StoredFile {
  return {
    id: textOf(row, 'id'),
    account: textOf(row, 'account'),
    filename: textOf(row, 'filename'),
    purpose: textOf(row, 'purpose'),
    bytes: numberOf(row, 'bytes'),
    createdAtMs: numberOf(row, 'created_at_ms'),
    expiresAtMs: numberOrNull(row, 'remove_at_ms'),
  }
}
