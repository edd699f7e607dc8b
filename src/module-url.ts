/** Finds the URL of a module that is not imported but started, such as a thread. */
import { extname } from 'node:path'

/**
 * The program runs from its sources, or compiled to JavaScript in a package, so the module gets the extension of the importer.
 * @param source the module's source, relative to the importer, such as `./thread.ts`
 * @param here the importer's `import.meta.url`
 */
export function moduleURL(source: string, here: string): URL {
  return new URL(source.replace(/\.ts$/, extname(here)), here)
}
