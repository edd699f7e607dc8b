/** The address of the database: the default, and the rule for all others. */
export const DEFAULT_DATABASE = 'sqlite:./data/parley.db'

export function databaseProblems(url: string): string[] {
  if (/^sqlite:.+/.test(url)) return []
  if (/^postgres(ql)?:/.test(url) && URL.canParse(url)) return []
  // The address may hold a password, so it is not repeated.
  return ['database: must be sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE']
}
