/** Locates another module of the program that is started by its URL instead of being imported, such as a thread. */
import { extname } from 'node:path'

/**
 * The program runs from its sources, or from a package in which they are compiled to JavaScript, so the module has the same
 * extension as the one that asks.
 * @param source the module's source, relative to the asking one, such as `./thread.ts`
 * @param here `import.meta.url` of the one that asks
 */
export function moduleURL(source: string, here: string): URL {
  return new URL(source.replace(/\.ts$/, extname(here)), here)
}
