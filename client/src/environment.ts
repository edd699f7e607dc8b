/** What the environment says, where there is one and it may be read: Node, Bun and Deno have it, browsers do not. */
export function fromEnvironment(name: string): string | undefined {
  try {
    const { process } = globalThis as {
      readonly process?: { readonly env?: Record<string, string | undefined> }
    }
    return process?.env?.[name] || undefined
  } catch {
    // Deno, without the permission to read it.
    return undefined
  }
}
