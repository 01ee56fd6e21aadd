/** How a value that cannot be resolved is told of: by its template, never by what it holds. */

/** A template that cannot be expanded. The message shows the template, never what a variable or a command holds. */
export class ExpansionError extends Error {
  readonly fault: string;
  /** What to do about it. */
  readonly remedy: string;

  constructor(fault: string, remedy: string) {
    super(`${fault}. ${remedy}`);
    this.name = 'ExpansionError';
    this.fault = fault;
    this.remedy = remedy;
  }
}

/** A template for the eyes of a person: long enough to recognise, and harmless in a terminal. */
export function shown(template: string): string {
  return JSON.stringify(template.slice(0, 512).replaceAll(/[\p{Cc}\p{Bidi_Control}]/gu, ' '));
}
