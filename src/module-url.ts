/** Where another module of the program is, for what is started by its address: a thread is not imported. */
import { extname } from 'node:path'

/**
 * The program runs from its sources, and from a package in which each has become JavaScript: the module that is looked
 * for has the ending of the one that asks.
 * @param source the module's source, relative to the asking one, such as `./thread.ts`
 * @param here `import.meta.url` of the one that asks
 */
export function moduleURL(source: string, here: string): URL {
  return new URL(source.replace(/\.ts$/, extname(here)), here)
}
