/** What a command does that its words do not say. */
export interface Effect {
  /** Why nothing but a permission for every command can cover it; null where its words say what runs. */
  readonly obscure: string | null;
  /** Whether it may turn out to be any command at all. */
  readonly anything: boolean;
  /** Further scripts that it gives to a shell. */
  readonly scripts: readonly string[];
}

/** Its words say what it does. */
export const clear: Effect = { obscure: null, anything: false, scripts: [] };
