/** The version of this package, which must be the same as in its package.json. */
export const VERSION = '0.4.0'
