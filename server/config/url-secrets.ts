/** Shows a URL of the settings without what is secret in it. */

/** A URL may hold a password, or a key among its parameters; a variable in their place is no secret. */
export function withoutSecrets(url: string): string {
  const hideUnlessVariable = (whole: string, before: string, value: string, after = '') =>
    /^\$\w+$|^\$\{\w+\}$/.test(value) ? whole : `${before}(hidden)${after}`;
  return url
    .replace(/(\/\/)([^/?#@]*)(@)/, hideUnlessVariable)
    .replaceAll(/([?&][^=&#]*=)([^&#]+)()/g, hideUnlessVariable);
}
