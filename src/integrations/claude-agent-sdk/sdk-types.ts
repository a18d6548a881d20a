/**
 * The parts of `@anthropic-ai/claude-agent-sdk` that this integration touches. Own types, because the SDK's
 * package brings a program of 350 MB. `npm run agents` compiles and runs them against the real one.
 */

/** The address of a transcript. Without `subpath`: the main one; with it: a sub-agent's. */
export interface SessionKey {
  readonly projectKey: string;
  readonly sessionId: string;
  readonly subpath?: string | undefined;
}

/** One line of a transcript. Its content belongs to the SDK and comes back as it was. */
export interface SessionStoreEntry {
  type: string;
  uuid?: string;
  timestamp?: string;
  [name: string]: unknown;
}

/** The input of a hook: the fields of the events that are used here. */
export interface HookInput {
  readonly hook_event_name: string;
  readonly tool_name?: string;
  readonly tool_input?: unknown;
  readonly tool_use_id?: string;
  readonly tool_response?: unknown;
  readonly tool_calls?: readonly { readonly tool_use_id: string; readonly tool_response?: unknown }[];
  readonly error?: string;
  readonly is_interrupt?: boolean;
  /** Set inside a sub-agent. */
  readonly agent_id?: string;
}

/** The answer of a hook of the SDK. */
export interface HookOutput {
  readonly continue?: boolean;
  readonly stopReason?: string;
  readonly hookSpecificOutput?: {
    readonly hookEventName: "PreToolUse";
    readonly permissionDecision?: "allow" | "deny" | "ask" | "defer";
    readonly permissionDecisionReason?: string;
    readonly updatedInput?: Record<string, unknown>;
  };
}

export type HookCallback = (input: HookInput) => Promise<HookOutput>;

export interface HookMatcher {
  readonly hooks: readonly HookCallback[];
  readonly timeout?: number;
  readonly onFailure?: "continue" | "block";
}

export type PermissionResult =
  | { behavior: "allow"; updatedInput?: Record<string, unknown> }
  | { behavior: "deny"; message: string };

export type CanUseTool = (
  toolName: string,
  input: Record<string, unknown>,
  options: { readonly signal: AbortSignal; readonly toolUseID: string },
) => Promise<PermissionResult | null>;

/** The options of `query()` that `durable` sets. */
export interface QueryOptions {
  /** Your hooks run beside those of `durable`. */
  readonly hooks?: Readonly<Record<string, readonly HookMatcher[] | undefined>>;
  /** Your decision about a tool. It is asked with `permissions: "sdk"` only. */
  readonly canUseTool?: CanUseTool;
  /** The limit of this query in dollars; the session's budget limits all of them. */
  readonly maxBudgetUsd?: number;
  /** The most turns of this query. */
  readonly maxTurns?: number;
  readonly [name: string]: unknown;
}

/** A message of the SDK: the fields that are read here. */
export interface SdkMessage {
  readonly type: string;
  readonly subtype?: string;
  readonly uuid?: string;
  readonly message?: {
    readonly id?: string;
    readonly model?: string;
    readonly usage?: Readonly<Record<string, unknown>>;
  };
  readonly result?: string;
  readonly is_error?: boolean;
  readonly stop_reason?: string | null;
  readonly total_cost_usd?: number;
  readonly [name: string]: unknown;
}
