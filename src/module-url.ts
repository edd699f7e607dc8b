/** Locates another module of the program that is started by its URL instead of being imported, such as a thread. */
import { extname } from 'node:path'

/**
 * Returns the URL of the module with the extension of the asking one, because the program runs either from its sources or
 * compiled to JavaScript.
 * @param source the module's source, relative to the asking one, such as `./thread.ts`
 * @param here `import.meta.url` of the asking module
 */
export function moduleURL(source: string, here: string): URL {
  return new URL(source.replace(/\.ts$/, extname(here)), here)
}
