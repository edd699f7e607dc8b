/** Reads an environment variable. Node, Bun and Deno have them, browsers do not. */
export function fromEnvironment(name: string): string | undefined {
  try {
    const { process } = globalThis as {
      readonly process?: { readonly env?: Record<string, string | undefined> }
    }
    return process?.env?.[name] || undefined
  } catch {
    // Deno throws without the permission to read the environment.
    return undefined
  }
}
