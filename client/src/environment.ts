/** Reads an environment variable in Node, Bun or Deno. Returns undefined in browsers, which have no environment. */
export function fromEnvironment(name: string): string | undefined {
  try {
    const { process } = globalThis as {
      readonly process?: { readonly env?: Record<string, string | undefined> }
    }
    return process?.env?.[name] || undefined
  } catch {
    // Deno throws if the program is not allowed to read the environment.
    return undefined
  }
}
