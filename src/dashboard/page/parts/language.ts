/**
 * Gives the page a language that `Intl` knows. Browsers started with a POSIX locale may name one that it refuses, such
 * as `en-US@posix`, and uPlot throws on that as soon as it is imported: to be imported before it.
 */
try {
  new Intl.NumberFormat(navigator.language)
} catch {
  Object.defineProperty(navigator, 'language', { value: 'en', configurable: true })
}

export {}
