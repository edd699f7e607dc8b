/** Reads an environment variable in Node, Bun or Deno. Browsers have none. */
export function fromEnvironment(name: string): string | undefined {
  try {
    const { process } = globalThis as {
      readonly process?: { readonly env?: Record<string, string | undefined> }
    }
    return process?.env?.[name] || undefined
  } catch {
    // Deno throws if the program may not read the environment.
    return undefined
  }
}
