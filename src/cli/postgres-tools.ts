/** Shell commands that back up and restore a Postgres database with pg_dump and pg_restore. They contain no password. */

/** Options of a database address that libpq knows by the same names. */
const SHARED_OPTIONS = ['host', 'port', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey']

export function dumpCommand(url: string, file: string): string {
  return `pg_dump --format=custom --no-owner --file=${quoted(file)} ${quoted(addressOf(url))}`
}

export function restoreCommand(url: string, file: string): string {
  return `pg_restore --no-owner --exit-on-error --single-transaction --dbname=${quoted(addressOf(url))} ${quoted(file)}`
}

/** Without the password: the tools ask for it, or read it from PGPASSWORD or ~/.pgpass. */
function addressOf(url: string): string {
  const address = new URL(url)
  address.password = ''
  address.hash = ''
  for (const name of new Set(address.searchParams.keys())) {
    if (!SHARED_OPTIONS.includes(name)) address.searchParams.delete(name)
  }
  // libpq calls this mode `require`.
  if (address.searchParams.get('sslmode') === 'no-verify') address.searchParams.set('sslmode', 'require')
  return address.href
}

function quoted(text: string): string {
  return /^[\w./:@%=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
