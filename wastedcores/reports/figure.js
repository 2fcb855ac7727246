// Draws a figure in the colours that the reader prefers, and again when that changes. wcDark maps light colours to dark ones.
const wcPrefers = matchMedia("screen and (prefers-color-scheme: dark)");
function wcThemed(figure) {
    const chosen = document.body.dataset.theme;  // the documentation's site lets its reader choose
    const dark = chosen === "dark" || (chosen !== "light" && wcPrefers.matches);
    if (!dark) return figure;
    return JSON.parse(JSON.stringify(figure).replace(/"white"|(#|%23)[0-9a-f]{6}|rgba?\(\d+,\d+,\d+/g, c => wcDark[c] ?? c));
}
function wcDraw(name, data, layout, config) {
    const draw = () => { const f = wcThemed({data, layout}); Plotly.react(name, f.data, f.layout, config) };
    draw();
    wcPrefers.addEventListener("change", draw);
    new MutationObserver(draw).observe(document.body, {attributeFilter: ["data-theme"]});
}
