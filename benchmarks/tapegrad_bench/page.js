// Without this script the page is complete: hints are <title> elements, nothing is hidden.
const tip = document.getElementById("tip");

// The browser's own hint is slow and does not exist on touch screens.
for (const title of document.querySelectorAll("svg title")) {
  title.parentElement.dataset.tip = title.textContent;
  title.parentElement.setAttribute("aria-label", title.textContent);
  title.remove();
}

function showTip(event) {
  const mark = event.target.closest("[data-tip]");
  tip.hidden = !mark;
  if (!mark) return;
  tip.textContent = mark.dataset.tip;
  const box = tip.getBoundingClientRect();
  const left = Math.min(event.clientX + 12, innerWidth - box.width - 8);
  const above = event.clientY - box.height - 12;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${above > 8 ? above : event.clientY + 16}px`;
}

document.addEventListener("pointermove", showTip);
document.addEventListener("pointerdown", showTip);

for (const button of document.querySelectorAll(".legend button")) {
  button.addEventListener("click", () => {
    const shown = button.getAttribute("aria-pressed") === "false";
    button.setAttribute("aria-pressed", String(shown));
    for (const mark of document.querySelectorAll(`.mark[data-c="${button.dataset.c}"]`)) {
      mark.toggleAttribute("hidden", !shown);
    }
  });
}
