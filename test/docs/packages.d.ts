// Packages that fragments in the documentation import and that are too large to install here.

declare module "@anthropic-ai/claude-agent-sdk" {
  export function query(input: {
    prompt: string | AsyncIterable<object>;
    options?: { sessionStore?: object; resume?: string };
  }): AsyncIterable<object>;
}
