/** The version must be the same as in this package's package.json. */
export const VERSION = '0.4.0'
