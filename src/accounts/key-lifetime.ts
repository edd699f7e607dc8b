/** The maximum lifetime of a key, a hundred years. In a separate file, for commands that need nothing else about keys. */
export const MOST_DAYS = 36_500
