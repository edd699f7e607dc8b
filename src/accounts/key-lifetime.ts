/** How far off a key may end, for those who load nothing else of keys: a hundred years. */
export const MOST_DAYS = 36_500
