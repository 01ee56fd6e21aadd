/** The refusal of a change that touches what counts only in trusted files. */

/** Thrown where somebody who may not do so would change what needs trust. */
export class RestrictedSettings extends Error {
  /** The JSON pointers of what the change touches. */
  readonly pointers: readonly string[];

  constructor(pointers: readonly string[]) {
    super(`These settings count only in trusted files: ${pointers.join(', ')}`);
    this.name = 'RestrictedSettings';
    this.pointers = pointers;
  }
}
