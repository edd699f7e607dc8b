/** The URL of the database: its default and its format. */
export const DEFAULT_DATABASE = 'sqlite:./data/parley.db'

export function databaseProblems(url: string): string[] {
  if (/^sqlite:.+/.test(url)) return []
  if (/^postgres(ql)?:/.test(url) && URL.canParse(url)) return []
  // The URL may contain a password, so it is not repeated.
  return ['database: must be sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE']
}
